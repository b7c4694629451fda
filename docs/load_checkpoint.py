import json, struct, torch

TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
         "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool}

def load(path):  # -> {name: tensor} for load_state_dict, and the description of the model
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = bytearray(file.read())
    about = json.loads(header.pop("__metadata__", {}).get("lockstep.model", "{}"))
    for field in about.get("inputs", []):  # the layout of arrays as the data set and `lockstep predict` read them
        field["layout"] = about["data_options"].get("layout", "channels_first").strip("\"'")  # as in TOML
    def tensor(t):
        begin, end = t["data_offsets"]
        if begin == end: return torch.empty(t["shape"], dtype=TYPES[t["dtype"]])
        return torch.frombuffer(data[begin:end], dtype=TYPES[t["dtype"]]).reshape(t["shape"])
    return {k: tensor(t) for k, t in header.items() if not k.startswith("optimizer.")}, about

def normalize(x, field):  # samples as in x.npy, as the model was trained on them; `field` is one of about["inputs"]
    x = torch.as_tensor(x).float() / (255 if field["type"] == "u8" else 1)
    if field.get("layout") == "channels_last" and x.ndim in (4, 5): x = x.movedim(-1, -3)  # images, videos
    if not field["mean"]: return x
    shape = (-1, 1, 1) if len(field["shape"]) == 3 else ()  # other samples than images have one channel
    return (x - torch.tensor(field["mean"]).reshape(shape)) / torch.tensor(field["deviation"]).reshape(shape)
