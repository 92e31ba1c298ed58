"""Reads the Parquet files that glofnd writes, for tests without pyarrow: read("x.parquet") = (names, rows). Shares no code."""
import struct


class Thrift:
    def __init__(self, data):
        self.data, self.at = data, 0

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def varint(self):
        x = shift = 0
        while True:
            b = self.byte()
            x |= (b & 127) << shift
            shift += 7
            if b < 128:
                return x

    def value(self, kind):
        if kind in (1, 2):
            return kind == 1
        if kind in (4, 5, 6):
            x = self.varint()
            return x >> 1 ^ -(x & 1)
        if kind == 8:
            n = self.varint()
            self.at += n
            return self.data[self.at - n:self.at]
        if kind == 9:
            head = self.byte()
            n = head >> 4 if head >> 4 < 15 else self.varint()
            return [self.value(head & 15) for _ in range(n)]
        assert kind == 12, kind
        fields, number = {}, 0
        while True:
            head = self.byte()
            if head == 0:
                return fields
            assert head >> 4, "only short steps between fields"
            number += head >> 4
            fields[number] = self.value(head & 15)


def plain(kind, data, n):
    if kind == 0:
        assert len(data) == (n + 7) // 8
        return [data[i // 8] >> i % 8 & 1 for i in range(n)]
    if kind == 6:
        out, at = [], 0
        for _ in range(n):
            size, = struct.unpack_from("<I", data, at)
            out.append(data[at + 4:at + 4 + size].decode())
            at += 4 + size
        assert at == len(data)
        return out
    return list(struct.unpack("<%d%s" % (n, {1: "i", 2: "q", 4: "f"}[kind]), data))


def read(path):
    data = open(path, "rb").read()
    assert data[:4] == data[-4:] == b"PAR1", path
    size, = struct.unpack("<I", data[-8:-4])
    footer = Thrift(data[-8 - size:-8])
    meta = footer.value(12)
    assert footer.at == size
    schema = meta[2]
    assert schema[0][5] == len(schema) - 1
    names = [node[4].decode() for node in schema[1:]]
    columns = [[] for _ in names]
    end = 4
    for group in meta.get(4, []):
        assert len(group[1]) == len(names)
        for c, chunk in enumerate(group[1]):
            facts = chunk[3]
            kind = facts[1]
            assert kind == schema[c + 1][1] and facts[4] == 0 and facts[3] == [names[c].encode()] and facts[9] == end
            stop = end + facts[7]
            found = []
            while end < stop:
                page = Thrift(data[end:stop])
                head = page.value(12)
                assert head[1] == 0 and head[2] == head[3] and head[5][2] == 0, head
                end += page.at
                found += plain(kind, data[end:end + head[3]], head[5][1])
                end += head[3]
            assert end == stop and len(found) == facts[5] == group[3]
            columns[c] += found
    assert end == len(data) - 8 - size
    rows = list(zip(*columns))
    assert meta[3] == len(rows) == max((len(c) for c in columns), default=0)
    return names, rows
