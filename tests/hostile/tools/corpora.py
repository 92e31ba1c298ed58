"""Hostile input files, made anew: corpora.py KIND FOLDER [COUNT] [SEED].

KIND: image tar npy safetensors parquet csv list config vocabulary log eval. Every kind has hand-made files that break
one rule each, and COUNT copies of sound files with flipped bits, cuts, zeros, repetitions and foreign pieces.
"""
import io
import json
import os
import random
import struct
import sys
import tarfile
import zlib

made = []


def put(name, data):
    made.append((name, data))


# ----- images -----

def chunk(kind, data, crc=None):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data) if crc is None else crc)


def png(width, height, depth=8, colour=2, interlace=0, rows=None, extra=b"", palette=None):
    bits = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}.get(colour, 1) * depth
    if rows is None:
        rows = b"".join(b"\0" + bytes((x * 7 + y) % 256 for x in range((width * bits + 7) // 8)) for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + (chunk(b"PLTE", palette) if palette else b"") + extra +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def progressive(width, height, scans=1):
    blocks = (width + 7) // 8 * ((height + 7) // 8)
    bits = ("0" + "1" * 14) * ((blocks + 32766) // 32767)
    bits += "0" * (-len(bits) % 8)
    data = bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8)).replace(b"\xff", b"\xff\x00")
    scan = b"\xff\xda\x00\x08\x01\x01\x00\x01\x3f\x00" + data
    return (b"\xff\xd8\xff\xdb\x00\x43\x00" + b"\x01" * 64 + b"\xff\xc2\x00\x0b\x08" + struct.pack(">HH", height, width) +
            b"\x01\x01\x11\x00\xff\xc4\x00\x14\x10\x01" + b"\x00" * 15 + b"\xe0" + scan * scans + b"\xff\xd9")


def image():
    sound = [png(16, 16), png(9, 7, 8, 0), png(16, 16, 1, 3, 1, palette=bytes(6)), png(5, 5, 16, 6), progressive(24, 16)]
    for i, data in enumerate(sound):
        put("sound%d.%s" % (i, "png" if data[:1] == b"\x89" else "jpg"), data)
    put("bomb.jpg", progressive(16384, 16383))
    put("bomb-scans.jpg", progressive(4000, 4000, 600))
    put("wide.jpg", progressive(65500, 1))
    put("zero-width.jpg", progressive(0, 16))
    put("bomb.png", png(60000, 60000, 1, 0, rows=b"\0" * 1000))
    put("zlib-bomb.png", png(8, 8, rows=b"\0" * (50 << 20)))
    put("text-bomb.png", png(8, 8, extra=chunk(b"zTXt", b"a\0\0" + zlib.compress(b"x" * (60 << 20)))))
    put("many-chunks.png", png(8, 8, extra=chunk(b"tEXt", b"a\0b") * 20000))
    for w, h in ((0, 1), (1, 0), (2 ** 31 - 1, 1), (2 ** 31, 2 ** 31), (2 ** 32 - 1, 2 ** 32 - 1)):
        put("side-%d-%d.png" % (w, h), png(w, h, rows=b"\0\0"))
    for depth in (0, 1, 2, 3, 4, 8, 16, 255):
        for colour in (0, 2, 3, 4, 6, 7):
            put("kind-%d-%d.png" % (depth, colour), png(8, 8, depth, colour, rows=b"\0" * 600))
    put("no-palette.png", png(8, 8, 8, 3))
    put("wrong-crc.png", png(8, 8).replace(b"IDAT", b"IDAT", 1)[:-16] + b"\0\0\0\0" + b"\0" * 12)
    put("empty.jpg", b"")
    put("one.jpg", b"\xff")
    put("marker.jpg", b"\xff\xd8\xff")
    put("fill.jpg", b"\xff\xd8" + b"\xff" * 100000)
    put("segments.jpg", b"\xff\xd8" + b"\xff\xe0\x00\x02" * 50000)
    put("gif.jpg", b"GIF89a" + bytes(20))
    put("html.jpg", b"<html><body>404</body></html>")
    for w, h in ((16384, 16384), (1, 1), (16384, 1)):
        data = b"WEBPVP8L" + struct.pack("<I", 5) + b"\x2f" + struct.pack("<I", (w - 1) | (h - 1) << 14) + b"\0"
        put("webp-%d-%d.jpg" % (w, h), b"RIFF" + struct.pack("<I", 18) + data)
    put("webp.jpg", b"RIFF\0\0\0\0WEBPVP8 " + bytes(20))
    return sound, ["png", "png", "png", "png", "jpg"]


# ----- tar -----

def member(name, data, kind=b"0", size=None, prefix=b""):
    head = bytearray(512)
    head[0:len(name[:100])] = name[:100]
    head[100:108] = b"0000644\0"
    text = b"%011o\0" % len(data) if size is None else size
    head[124:124 + len(text)] = text
    head[136:148] = b"00000000000\0"
    head[156:157] = kind
    head[257:265] = b"ustar\x0000"
    head[345:345 + len(prefix)] = prefix
    head[148:156] = b"        "
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + data + bytes(-len(data) % 512)


def tar():
    pixel = png(4, 4)
    end = bytes(1024)
    sound = [member(b"a.png", pixel) + member(b"a.txt", b"a cat") + member(b"a.cls", b"1") + end]
    b = io.BytesIO()
    with tarfile.open(fileobj=b, mode="w", format=tarfile.PAX_FORMAT) as t:
        for name, data in (("x" * 150 + ".png", pixel), ("ä.png", pixel), ("ä.json", b'{"caption": "c", "label": 2}')):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    sound.append(b.getvalue())
    put("sound0.tar", sound[0])
    put("sound1.tar", sound[1])
    put("no-end.tar", sound[0][:-1024])
    put("empty.tar", b"")
    put("zeros.tar", bytes(20480))
    for i, size in enumerate((b"77777777777\0", b"-0000000001\0", b"zzzzzzzzzzz\0", b"\x80" + b"\xff" * 11, b"\xff" * 12,
            b"\x80" + bytes(3) + b"\x7f" + b"\xff" * 7, b" " * 12)):
        put("size%d.tar" % i, member(b"a.png", pixel, size=size) + end)
    for i, name in enumerate((b"../../etc/passwd.png", b"/etc/passwd.png", b"", b".", b"..png", b"a" * 100, b"a\nb.png",
            b"\xff\xfe.png", b"a.png\0hidden", b"/" * 99)):
        put("name%d.tar" % i, member(name, pixel) + end)
    for kind in b"1234567LKSVxgDMN\xff":
        put("kind%d.tar" % kind, member(b"a.png", pixel, kind=bytes([kind])) + member(b"b.png", pixel) + end)
    put("long-link.tar", member(b"././@LongLink", b"x" * 5000, b"L") * 50 + member(b"a.png", pixel) + end)
    for i, record in enumerate((b"6 a=b\n", b"99999999999999999999 path=x\n", b"0 path=x\n", b"-5 path=x\n", b"20 size=-1\n",
            b"30 size=99999999999999999999\n",
                                b"12 path=a\nb\n", b"path=x\n", b"9 path=\n", b"\0" * 100, b"11 GNU.sparse.major=1\n")):
        put("pax%d.tar" % i, member(b"PaxHeader", record, b"x") + member(b"a.png", pixel) + end)
    put("double.tar", member(b"a.png", pixel) * 3 + end)
    put("captions.tar", member(b"a.png", pixel) + member(b"a.txt", b"x" * (3 << 20)) + end)
    put("deep.tar", member(b"a.png", pixel) + member(b"a.json", b"[" * 100000 + b"]" * 100000) + end)
    put("many.tar", b"".join(member(b"%d.png" % i, b"") for i in range(3000)) + end)
    for i, text in enumerate((b"1e400", b"-1", b"1048576", b"99999999999999999999", b"0x10", b"1 2", b"\xff")):
        put("label%d.tar" % i, member(b"a.png", pixel) + member(b"a.cls", text) + end)
    return sound, ["tar"] * len(sound)


# ----- arrays -----

def npy_file(head, data, version=1, length=None):
    length = len(head) if length is None else length
    size = struct.pack("<H", length & 0xffff) if version == 1 else struct.pack("<I", length & 0xffffffff)
    return b"\x93NUMPY" + bytes([version, 0]) + size + head + data


def npy_head(descr, order, shape):
    head = ("{'descr': %s, 'fortran_order': %s, 'shape': %s, }" % (descr, order, shape)).encode()
    return head + b" " * (63 - (len(head) + 10) % 64) + b"\n"


def npy():
    data = struct.pack("<24f", *[float(i % 7) for i in range(24)])
    sound = [npy_file(npy_head("'<f4'", "False", "(6, 4)"), data), npy_file(npy_head("'<f2'", "False", "(6, 8)"), data)]
    put("sound0.npy", sound[0])
    put("sound1.npy", sound[1])
    shapes = ("(0, 4)", "(6, 0)", "(-6, 4)", "(6, 4, 1)", "(24,)", "()", "(6,4", "(99999999999999999999, 1)",
            "(4611686018427387904, 4)", "(6.0, 4)", "(6, 4,)",
              "(True, 4)", "6", "[6, 4]", "(" * 5000 + "6" + ")" * 5000, "(6, 4) + (1,)", "(0x6, 4)", "(2147483648, 2147483648)")
    for i, shape in enumerate(shapes):
        put("shape%d.npy" % i, npy_file(npy_head("'<f4'", "False", shape), data))
    for i, descr in enumerate(("'>f4'", "'=f4'", "'<f8'", "'<f3'", "'|O'", "'<U99999'", "''", "[('a', '<f4')]", "'<f4",
            "'<V4'", "'<c8'", "None", "b'<f4'")):
        put("descr%d.npy" % i, npy_file(npy_head(descr, "False", "(6, 4)"), data))
    put("order.npy", npy_file(npy_head("'<f4'", "True", "(6, 4)"), data))
    put("order2.npy", npy_file(npy_head("'<f4'", "maybe", "(6, 4)"), data))
    for i, version in enumerate((0, 2, 3, 4, 255)):
        put("version%d.npy" % i, npy_file(npy_head("'<f4'", "False", "(6, 4)"), data, version))
    for i, length in enumerate((0, 1, 63, 65535, 2 ** 31, 2 ** 32 - 1)):
        put("length%d.npy" % i, npy_file(npy_head("'<f4'", "False", "(6, 4)"), data, 2, length))
    put("nan.npy", npy_file(npy_head("'<f4'", "False", "(6, 4)"), struct.pack("<24f", *([float("nan"), float("inf"), -0.0,
            1e-45] * 6))))
    put("short.npy", npy_file(npy_head("'<f4'", "False", "(6, 4)"), data[:-1]))
    put("long.npy", npy_file(npy_head("'<f4'", "False", "(6, 4)"), data + b"x"))
    put("empty.npy", b"")
    put("magic.npy", b"\x93NUMPY")
    return sound, ["npy"] * 2


def tensors(head, data, length=None):
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def safetensors():
    data = struct.pack("<24f", *[float(i % 7) for i in range(24)])
    good = {"emb": {"dtype": "F32", "shape": [6, 4], "data_offsets": [0, 96]}}
    sound = [tensors(good, data), tensors(dict(good, __metadata__={"a": "b"}), data)]
    put("sound0.safetensors", sound[0])
    put("sound1.safetensors", sound[1])
    for i, length in enumerate((0, 1, 7, 2 ** 31, 2 ** 32, 2 ** 63 - 1, 2 ** 63, 2 ** 64 - 1, 100 << 20)):
        put("length%d.safetensors" % i, tensors(good, data, length))
    changes = ({"dtype": "F99"}, {"dtype": 3}, {"dtype": None}, {"shape": [6, 4, 0]}, {"shape": [-6, 4]}, {"shape": [2 ** 62,
            4]}, {"shape": "6"}, {"shape": [6.0, 4]},
               {"shape": [1] * 3000}, {"shape": []}, {"data_offsets": [0]}, {"data_offsets": [96, 0]}, {"data_offsets": [-1,
                       95]}, {"data_offsets": [1, 97]},
               {"data_offsets": [0, 2 ** 63]}, {"data_offsets": [2 ** 64, 2 ** 64 + 96]}, {"data_offsets": [0,
                       95]}, {"data_offsets": None}, {"more": 1})
    for i, change in enumerate(changes):
        put("field%d.safetensors" % i, tensors({"emb": dict(good["emb"], **change)}, data))
    put("overlap.safetensors", tensors({"a": good["emb"], "b": good["emb"]}, data))
    put("gap.safetensors", tensors({"a": {"dtype": "F32", "shape": [1], "data_offsets": [8, 12]}}, data))
    put("twice.safetensors",
            tensors(b'{"emb": {"dtype":"F32","shape":[6,4],"data_offsets":[0,96]}, '
                    b'"emb": {"dtype":"F32","shape":[6,4],"data_offsets":[0,96]}}', data))
    put("deep.safetensors", tensors(b'{"a": ' + b"[" * 100000 + b"]" * 100000 + b"}", data))
    put("names.safetensors", tensors({"\u202e\x1b[2J\n": good["emb"]}, data))
    put("bytes.safetensors", tensors(b'{"\xff\xfe": {"dtype":"F32","shape":[6,4],"data_offsets":[0,96]}}', data))
    put("zero.safetensors", tensors(b'{"a\\u0000b": {"dtype":"F32","shape":[6,4],"data_offsets":[0,96]}}', data))
    put("metadata.safetensors", tensors(dict(good, __metadata__={"a": 1}), data))
    put("metadata2.safetensors", tensors(dict(good, __metadata__=[]), data))
    put("none.safetensors", tensors(b"{}", b""))
    put("list.safetensors", tensors(b"[]", b""))
    put("many.safetensors", tensors({"t%d" % i: {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for i in range(5000)},
            b""))
    put("empty.safetensors", b"")
    return sound, ["safetensors"] * 2


# ----- texts -----

def csv():
    sound = [b"filepath\ttitle\na.png\ta cat\nb.png\ta dog\n",
            b'filepath,title,label\n"a.png","a ""cat""",1\nb.png,"two\nlines",0\n']
    put("sound0.csv", sound[0])
    put("sound1.csv", sound[1])
    put("utf16.csv", "filepath,title\na.png,x\n".encode("utf-16"))
    put("zero.csv", b"filepath\ttitle\na.png\tcut\0here\n")
    put("quote.csv", b'filepath,title\na.png,"never closed\n')
    put("columns.csv", b"filepath,title\n" + b",".join([b"x"] * 100000) + b"\n")
    put("no-header.csv", b"a.png,x\n")
    put("long.csv", b"filepath,title\na.png," + b"x" * (8 << 20) + b"\n")
    put("returns.csv", b"filepath,title\ra.png,x\r")
    put("empty.csv", b"")
    put("breaks.csv", b"\n" * 100000)
    put("quotes.csv", b'"' * 100001)
    put("latin.csv", b"filepath,title\na.png,caf\xe9\n")
    put("path.csv", b"filepath,title\n" + b"../" * 2000 + b"a.png,x\n")
    return sound, ["csv"] * 2


def list_():
    sound = [b"a.png\t1\nb.png\t0\n"]
    put("sound0.txt", sound[0])
    for i, label in enumerate((b"-2", b"1048576", b"99999999999999999999", b"1e3", b"x", b"", b"1\t2", b" 1 ", b"0x1", b"+1",
            b"nan")):
        put("label%d.txt" % i, b"a.png\t" + label + b"\nb.png\t0\n")
    put("zero.txt", b"a.png\t1\0\nb.png\t0\n")
    put("utf16.txt", "a.png\t1\n".encode("utf-16"))
    put("long.txt", b"x" * 100000 + b"\t1\n")
    put("many.txt", b"a.png\t1\n" * 100000)
    put("empty.txt", b"")
    return sound, ["txt"]


def config():
    sound = [b"data = shapes:n=16\narch = resnet8\nbatch = 8\nepochs = 1\nsize = 8\n",
            b"# note\ndata = shapes:n=16\ntask = clip\nloss = clip\nbatch = 8\n"]
    put("sound0.cfg", sound[0])
    put("sound1.cfg", sound[1])
    put("utf16.cfg", sound[0].decode().encode("utf-16"))
    put("utf16le.cfg", sound[0].decode().encode("utf-16-le"))
    put("zero.cfg", b"data = a\0b\n")
    put("mark.cfg", b"\xef\xbb\xbf" + sound[0])
    put("long.cfg", b"data = " + b"x" * 100000 + b"\n")
    put("lines.cfg", b"\n" * 200000)
    put("keys.cfg", b"\x1b[2J = 1\n")
    for i, value in enumerate((b"nan", b"inf", b"-1", b"1e999", b"99999999999999999999", b"0x10", b"", b"=", b"1.5",
            b"8 # comment", b"\xff", b"%s%n", b"1e-400")):
        put("batch%d.cfg" % i, b"data = shapes:n=16\nbatch = " + value + b"\n")
        put("lr%d.cfg" % i, b"data = shapes:n=16\nlr = " + value + b"\n")
        put("data%d.cfg" % i, b"data = " + value + b"\n")
    put("empty.cfg", b"")
    return sound, ["cfg"] * 2


def vocabulary():
    sound = [b"#version: 0.2\nt h\nth e</w>\na n\nan d</w>\n"]
    put("sound0.txt", sound[0])
    put("packed.txt.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\3" + zlib.compress(sound[0])[2:-4] + struct.pack("<II",
            zlib.crc32(sound[0]), len(sound[0])))
    put("bomb.txt.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\3" + zlib.compress(b"a b\n" * (100 << 18), 9)[2:-4] + bytes(8))
    put("cut.txt.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\3abc")
    put("zero.txt", b"#version: 0.2\na\0b c\n")
    put("three.txt", b"#version: 0.2\na b c\n")
    put("one.txt", b"#version: 0.2\na\n")
    put("unknown.txt", b"#version: 0.2\nzz qq\n")
    put("twice.txt", b"#version: 0.2\na b\na b\n")
    put("long.txt", b"#version: 0.2\n" + b"x" * 1000000 + b" y\n")
    put("many.txt", b"#version: 0.2\n" + b"a b\n" * 200000)
    put("bytes.txt", b"#version: 0.2\n\xff \xfe\n")
    put("empty.txt", b"")
    return sound, ["txt"]


def log():
    sound = [b'{"event": "step", "step": 1, "epoch": 0, "loss": 1.5, "lr": 0.1}\n'
             b'{"event": "epoch", "step": 2, "epoch": 0, "loss": 1}\n']
    put("sound0.jsonl", sound[0])
    for i, value in enumerate((b"1e999", b"-1e999", b"NaN", b"99999999999999999999", b'"x"', b"null", b"[]", b"{}", b"true",
            b"-1", b"1e-400")):
        put("step%d.jsonl" % i, b'{"event": "step", "step": ' + value + b', "epoch": ' + value + b', "loss": ' + value + b"}\n")
        put("epoch%d.jsonl" % i, b'{"event": "epoch", "step": 2, "epoch": ' + value + b', "loss": ' + value + b"}\n" * 3)
    put("deep.jsonl", b'{"a": ' + b"[" * 100000 + b"]" * 100000 + b"}\n")
    put("long.jsonl", b'{"event": "' + b"x" * (4 << 20) + b'"}\n')
    put("zero.jsonl", b'{"event": "step\\u0000", "a\0": 1}\n')
    put("lines.jsonl", b"\n" * 100000)
    put("events.jsonl", b'{"event": "\\u001b[2J\\u202e", "step": 1}\n' * 10)
    put("empty.jsonl", b"")
    return sound, ["jsonl"]


def eval_():
    line = b'{"event": "knn", "protocol": "knn", "data": "d", "test": "t", "untrained": false, "k": 5, "top1": %s}\n'
    sound = [line % b"0.5"]
    put("sound0.jsonl", sound[0])
    for i, value in enumerate((b"1e999", b"NaN", b'"x"', b"null", b"[[[]]]", b"{}", b"true", b"-1e308", b"1e308")):
        put("value%d.jsonl" % i, line % value + line % b"1e308")
    put("keys.jsonl",
            b'{"event": "\\u001b[2J<script>alert(1)</script>", "data": "\\u202e\\n", "top1": 0.5, "new": [1, [2, {"a": []}]]}\n')
    put("many.jsonl", b"".join(b'{"event": "e%d", "data": "d", "top1": 0.5}\n' % i for i in range(3000)))
    put("deep.jsonl", b'{"event": "knn", "data": ' + b"[" * 2000 + b"]" * 2000 + b"}\n")
    return sound, ["jsonl"]


# ----- Parquet -----

def parquet():
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../fixtures/parquet")
    sound = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".parquet"):
            with open(os.path.join(folder, name), "rb") as f:
                put(name, f.read())
            if not name.startswith("bad"):
                sound.append(made[-1][1])
    plain = sound[-1]
    put("empty.parquet", b"")
    put("magic.parquet", b"PAR1PAR1")
    put("footer.parquet", b"PAR1" + struct.pack("<I", 0) + b"PAR1")
    put("encrypted.parquet", plain[:-4] + b"PARE")
    for i, length in enumerate((0, 1, len(plain) - 12, len(plain) - 11, len(plain), 2 ** 31, 2 ** 32 - 1)):
        put("length%d.parquet" % i, plain[:-8] + struct.pack("<I", length) + b"PAR1")
    put("deep.parquet", b"PAR1" + b"\x1c" * 100000 + struct.pack("<I", 100000) + b"PAR1")
    put("list.parquet", b"PAR1" + b"\x29\xfc\xff\xff\xff\xff\x0f" + struct.pack("<I", 7) + b"PAR1")
    return sound, ["parquet"] * len(sound)


# ----- mutation -----

def mutate(rng, data, others):
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        if not data:
            data += b"\0"
        at = rng.randrange(len(data))
        kind = rng.randrange(7)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            n = rng.randrange(1, 65)
            data[at:at + n] = bytes(len(data[at:at + n]))
        elif kind == 3:
            n = rng.randrange(1, 200)
            data[at:at] = data[max(0, at - n):at] * rng.choice((1, 2, 50))
        elif kind == 4:
            other = rng.choice(others)
            cut = rng.randrange(len(other) + 1)
            data[at:at] = other[cut:cut + rng.randrange(1, 300)]
        elif kind == 5:
            data[at:at + 4] = rng.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"9999", b"-1  ",
                    b"\0\0\0\0"))
        else:
            del data[at:at + rng.randrange(1, 100)]
    return bytes(data[:4 << 20])


def main():
    kind, folder = sys.argv[1], sys.argv[2]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 20
    rng = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    sound, ends = {"list": list_, "eval": eval_}.get(kind, globals().get(kind))()
    for i in range(count):
        k = rng.randrange(len(sound))
        put("mutant%d.%s" % (i, ends[k]), mutate(rng, sound[k], sound))
    os.makedirs(folder, exist_ok=True)
    for name, data in made:
        with open(os.path.join(folder, name), "wb") as f:
            f.write(data)


main()
