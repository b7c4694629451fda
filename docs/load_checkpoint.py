import json, struct, sys, torch

def read_header(path):
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        return json.loads(file.read(length)), 8 + length

def load(path):  # -> {name: tensor}, ready for model.load_state_dict
    header, start = read_header(path)
    data, types = bytearray(open(path, "rb").read()[start:]), {"F32": torch.float32, "I64": torch.int64}
    tensor = lambda t: torch.frombuffer(data[slice(*t["data_offsets"])], dtype=types[t["dtype"]]).reshape(t["shape"])
    return {k: tensor(t) for k, t in header.items() if k != "__metadata__" and not k.startswith("optimizer.")}

def about(path):  # -> name, input, classes, mean, deviation (of model.safetensors)
    return json.loads(read_header(path)[0]["__metadata__"]["lockstep.model"])

if __name__ == "__main__":
    for name, tensor in load(sys.argv[1]).items(): print(name, tuple(tensor.shape))
