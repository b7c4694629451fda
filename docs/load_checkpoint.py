import json, struct, torch

def load(path):  # -> {name: tensor} for load_state_dict, and the metadata of model.safetensors
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = bytearray(file.read())
    about = json.loads(header.pop("__metadata__", {}).get("lockstep.model", "{}"))
    types = {"F32": torch.float32, "I64": torch.int64}
    tensor = lambda t: torch.frombuffer(data[slice(*t["data_offsets"])], dtype=types[t["dtype"]]).reshape(t["shape"])
    return {k: tensor(t) for k, t in header.items() if not k.startswith("optimizer.")}, about
