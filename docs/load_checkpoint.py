import json, struct, sys, torch

def load(path):  # -> {name: tensor}, ready for model.load_state_dict
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = bytearray(file.read())
    types = {"F32": torch.float32, "I64": torch.int64}
    header = {k: v for k, v in header.items() if k != "__metadata__" and not k.startswith("optimizer.")}
    return {k: torch.frombuffer(data[slice(*v["data_offsets"])], dtype=types[v["dtype"]]).reshape(v["shape"]) for k, v in header.items()}

if __name__ == "__main__":
    for name, tensor in load(sys.argv[1]).items(): print(name, tuple(tensor.shape))
