#!/usr/bin/env python3
"""Checks that weights and embeddings agree with open_clip; the other half of tests/train/unit_open_clip.c, which runs

    python3 tools/check_open_clip.py make CASE FOLDER      writes model.safetensors and inputs.safetensors
    python3 tools/check_open_clip.py check CASE FOLDER     compares saved.safetensors, written by the test, with model.safetensors

and, by itself, with the program: images of several shapes through open_clip's evaluation transform and its resized positions

    python3 tools/check_open_clip.py view build/glofnd FOLDER      how far are the embeddings of `glofnd embed` from open_clip's?

Needs torch, open_clip and safetensors; exits with 77 where one is missing. Cases are small models, and open_clip's RN50 and
ViT-B-32 in full. All weights and statistics are random. inputs.safetensors holds the sizes of both encoders ("spec"), images
[n][h][w][3], tokens [n][context], and the embeddings open_clip gives for them in eval mode, not normalised.
"""
import os
import subprocess
import sys

try:
    import torch
    import open_clip
    from safetensors.torch import load_file, save_file
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TEXT = {"context_length": 20, "vocab_size": 300, "width": 64, "heads": 2, "layers": 3}
# name: (embed_dim, vision, text, quick GELU, stored as)
SMALL = {
    "small-resnet": (48, {"image_size": 64, "layers": [3, 4, 6, 3], "width": 16, "patch_size": None}, TEXT, False,
                     torch.float32),
    "small-vit": (40, {"image_size": 32, "layers": 3, "width": 128, "patch_size": 8, "head_width": 64}, TEXT, True,
                  torch.float16),
    "small-bf16": (40, {"image_size": 32, "layers": 2, "width": 64, "patch_size": 4, "head_width": 32}, TEXT, False,
                   torch.bfloat16),
}


def config(case):
    if case in SMALL:
        return SMALL[case]
    c = open_clip.get_model_config(case)
    return c["embed_dim"], c["vision_cfg"], c["text_cfg"], bool(c.get("quick_gelu")), torch.float32


def new_model(case):
    embed_dim, vision, text, quick, _ = config(case)
    return open_clip.model.CLIP(embed_dim, open_clip.model.CLIPVisionCfg(**vision), open_clip.model.CLIPTextCfg(**text),
                                quick_gelu=quick)


def randomize(model, stored):
    """Every tensor gets numbers of its own, as they come out of the file."""
    with torch.no_grad():
        for name, t in model.state_dict().items():
            if t.dtype.is_floating_point:
                spread = 0.3 * torch.randn(t.shape) if t.dim() < 2 else torch.randn(t.shape) * (t[0].numel() ** -0.5)
                centre = 1.0 if name.endswith(("running_var", "weight")) and t.dim() == 1 else 0.0
                new = centre + spread.clamp(-0.7, 0.7)
                if name == "logit_scale":
                    new = torch.tensor(2.5)
                if "bn3" in name and name.endswith("weight"):
                    new = 0.3 * new             # else a deep untrained net multiplies rounding errors
                t.copy_(new.to(stored).to(torch.float32))


def spec(case):
    embed_dim, vision, text, quick, _ = config(case)
    resnet = isinstance(vision["layers"], list)
    width = vision["width"]
    heads = width // 2 if resnet else width // vision.get("head_width", 64)
    layers = 0 if resnet else vision["layers"]
    return torch.tensor([resnet, vision["image_size"], embed_dim, width, layers, heads, vision.get("patch_size") or 0, quick,
                         text["context_length"], text["vocab_size"], text["width"], text["layers"], text["heads"]],
                        dtype=torch.int32)


def make(case, folder):
    torch.manual_seed(7)
    stored = config(case)[4]
    model = new_model(case).eval()
    randomize(model, stored)
    state = {k: v.to(stored) if v.dtype.is_floating_point else v for k, v in model.state_dict().items()}
    save_file(state, os.path.join(folder, "model.safetensors"))
    sizes = spec(case)
    n, size, context, vocab = 3, int(sizes[1]), int(sizes[8]), int(sizes[9])
    images = torch.randn(n, size, size, 3)
    tokens = torch.randint(0, vocab - 1, (n, context), dtype=torch.int32)
    for i in range(n):
        tokens[i, 3 + 5 * i] = vocab - 1
        tokens[i, 4 + 5 * i:] = 0
    with torch.no_grad():
        image = model.encode_image(images.permute(0, 3, 1, 2).contiguous())
        text = model.encode_text(tokens.long())
    save_file({"spec": sizes, "images": images, "tokens": tokens, "image_embedding": image.contiguous(),
               "text_embedding": text.contiguous()}, os.path.join(folder, "inputs.safetensors"))


def check(case, folder):
    ours = load_file(os.path.join(folder, "saved.safetensors"))
    theirs = load_file(os.path.join(folder, "model.safetensors"))
    model = new_model(case)
    model.load_state_dict(ours, strict=True)
    state = model.state_dict()
    for name, t in theirs.items():
        if t.dtype.is_floating_point and not torch.equal(state[name], t.to(torch.float32)):
            sys.exit(f"{name} came back with other numbers")


def draw_images(folder):
    import numpy
    from PIL import Image
    draw, paths = numpy.random.default_rng(3), []
    for i, (w, h) in enumerate([(100, 75), (64, 130), (48, 48), (300, 200), (55, 49), (47, 90), (200, 201), (31, 40)]):
        coarse = draw.integers(0, 256, (h // 4 + 1, w // 4 + 1, 3), dtype=numpy.uint8)
        paths.append(os.path.join(folder, f"{i}.png"))
        Image.fromarray(coarse).resize((w, h), Image.BICUBIC).save(paths[-1])
    with open(os.path.join(folder, "list.csv"), "w", encoding="utf-8") as f:
        f.write("filepath\ttitle\n" + "".join(f"{os.path.abspath(path)}\tthing {i}\n" for i, path in enumerate(paths)))
    return [Image.open(path) for path in paths]


def embed_by(program, folder, size, embed_dim, vision, view):
    """A run from the weights, at another image size and context; its embeddings before the first step."""
    import numpy
    data, run = "csv:" + os.path.join(folder, "list.csv"), os.path.join(folder, "run-" + view)
    options = dict(task="clip", arch="vit", size=size, patch=vision["patch_size"], image_width=vision["width"],
                   image_layers=vision["layers"], image_heads=vision["width"] // vision["head_width"], embed_dim=embed_dim,
                   text_width=TEXT["width"], text_layers=TEXT["layers"], text_heads=TEXT["heads"], context=12, quick_gelu=1,
                   batch=8, epochs=1, warmup_steps=0, init=os.path.join(folder, "model.safetensors"), eval_view=view, data=data,
                   vocab=os.path.join(folder, "merges.txt"), out=run)
    with open(options["vocab"], "w", encoding="utf-8") as f:    # any will do: only images are embedded
        f.write("#version: 0.2\nt h\n")
    subprocess.run([program, "pretrain"] + [word for k, v in options.items() for word in ("--" + k, str(v))], check=True)
    out = os.path.join(folder, view + ".npy")
    subprocess.run([program, "embed", run, "--untrained", "--data", data, "--out", out], check=True)
    return torch.from_numpy(numpy.load(out))


def view(program, folder, size=48):
    make("small-vit", folder)
    images = draw_images(folder)
    embed_dim, vision, text, quick, _ = config("small-vit")
    larger = open_clip.model.CLIPVisionCfg(**dict(vision, image_size=size))
    model = open_clip.model.CLIP(embed_dim, larger, open_clip.model.CLIPTextCfg(**text), quick_gelu=quick).eval()
    state = {k: v.float() if v.dtype.is_floating_point else v
             for k, v in load_file(os.path.join(folder, "model.safetensors")).items()}
    open_clip.model.resize_pos_embed(state, model)
    model.load_state_dict(state)
    transform = open_clip.transform.image_transform(size, is_train=False)
    with torch.no_grad():
        wanted = torch.nn.functional.normalize(model.encode_image(torch.stack([transform(m) for m in images])))
    for name in ("clip", "center"):
        made = torch.nn.functional.normalize(embed_by(program, folder, size, embed_dim, vision, name))
        print(f"eval_view {name}: embeddings of norm 1 within {(made - wanted).norm(dim=1).max():.2g} of open_clip's")


def main():
    modes = {"make": make, "check": check, "view": view}
    if len(sys.argv) != 4 or sys.argv[1] not in modes:
        sys.exit(__doc__)
    modes[sys.argv[1]](sys.argv[2], sys.argv[3])


if __name__ == "__main__":
    main()
