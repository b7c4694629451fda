import json, struct, torch

def save(state_dict, path):  # model.state_dict() -> a file for `lockstep train --weights FILE`
    types, header, offset = {torch.float32: "F32", torch.int64: "I64"}, {}, 0
    data = {name: tensor.detach().contiguous().numpy().tobytes() for name, tensor in state_dict.items()}
    for name, tensor in state_dict.items():
        end = offset + len(data[name])
        header[name] = {"dtype": types[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    with open(path, "wb") as file: file.write(struct.pack("<Q", len(text)) + text + b"".join(data.values()))
