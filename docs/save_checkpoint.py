import json, struct, torch
from load_checkpoint import TYPES

def save(state_dict, path):  # model.state_dict() -> a file for `lockstep train --weights FILE`
    names, header, offset = {type: name for name, type in TYPES.items()}, {}, 0
    data = {name: tensor.detach().cpu().flatten().view(torch.uint8).numpy().tobytes() for name, tensor in state_dict.items()}
    for name, tensor in state_dict.items():
        end = offset + len(data[name])
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    with open(path, "wb") as file: file.write(struct.pack("<Q", len(text)) + text + b"".join(data.values()))
