#!/usr/bin/env python3
"""Tokens of varied captions by open_clip's SimpleTokenizer, for tests/text/golden_bpe*.c.

    python3 tools/generate/make_bpe_golden.py TOKENIZER.PY MERGES OUT.tsv
    python3 tools/generate/make_bpe_golden.py --time TOKENIZER.PY MERGES CAPTIONS.txt      tokens per second, for bench/bpe

TOKENIZER.PY is open_clip's tokenizer.py (pip download open_clip_torch; needs regex and ftfy, not torch). MERGES is a merges
file, gzip or plain. Each line of OUT: the caption as hexadecimal UTF-8, a tab, the tokens, of which there are at most 77.
"""
import gzip
import random
import sys
import tempfile
import time
import types

PLAIN = [
    "", " ", "a", "a cat", "A Photo of a DOG.", "a large striped red triangle on a blue background",
    "it's the dog's bone, isn't it?",
    "We'll see; they're here, I've gone, I'm late, he'd know, don't", "IT'S THE DOG'S BONE, WE'LL SEE", "'s't're've'm'll'd",
    "''s !'s x's 's",
    "tabs\tand\nlines\r\nand  many    spaces", "  leading and trailing  ", "1234567890", "3.14159 and 1,000,000",
    "in 1999, 42nd st.",
    "e-mail: someone@example.com, https://example.com/a?b=c&d=e#f", "<start_of_text>", "<end_of_text>",
    "a <start_of_text> b <end_of_text> c",
    "<START_OF_TEXT>", "!<start_of_text>", "<start_of_text><end_of_text>x", "</w>", "a</w>b </w> w</w>", "!!!???...",
    "a_b__c", "$100 & 50%",
    "#hashtag @mention", "~`^*()[]{}|\\/\"'", "supercalifragilisticexpialidocious",
    "antidisestablishmentarianism pneumonoultramicroscopic",
    "x" * 47, "x" * 48, "x" * 49, "x" * 500, "ab" * 300, "lorem ipsum dolor sit amet " * 30, "1" * 100, "!" * 100, "a " * 200,
    "word" * 25,
    "aaaaaaa bbbbbbb", "the the the", "striped" * 20, "background" * 9 + " end",
]
ENTITIES = [
    "Tom &amp; Jerry", "Tom &amp;amp; Jerry", "Tom &amp;amp;amp; Jerry", "&lt;b&gt;bold&lt;/b&gt;", "caf&eacute; &copy; 2020",
    "&quot;quoted&quot;",
    "&#39;s and &#x27;t", "&#8217;", "&#128512; &#x1F600;", "&nbsp;a&nbsp;b", "a&nbspb", "&notit; &not",
    "&ampamp; &amp", "AT&T", "R&D &", "&;",
    "&#;", "&#x;", "&#xZZ;", "&#0; &#128; &#150; &#xD800; &#x110000; &#99999999999;", "&#1; &#31; &#127; x",
    "&hellip; &mdash; &ndash; &trade;", "< &amp; >", "<p>&eacute;</p>", "&unknown; thing",
    "&EACUTE &Eacute",
    "&frac12 cup", "&lt", "&ltx", "a < b &amp;&amp; c > d", "&rsquo; &ldquo;", "<i>&rsquo;&ldquo;x&rdquo;</i>",
    "&thinsp;&emsp;x",
]
UNICODE = [
    "naïve café résumé", "ÀÉÎÕÜ ÇÑ", "ĲSSELMEER ĳ", "straße STRASSE ẞ", "ΟΔΥΣΣΕΥΣ ΣΑΣ Σ",
    "ΑΣ. ΑΣ' ΑΣΑ ΑΣ:Α", "İstanbul ISPARTA ıi", "Ǆ ǅ ǆ ǲ",
    "привет мир, КОШКА и СОБАКА", "мягкий знак Ь ъ", "日本語の写真、猫と犬。",
    "一只红色的猫在沙发上", "漢字かな交じり文 カタカナ", "ﾊﾝｶｸ ｶﾅ",
    "ＦＵＬＬ　ｗｉｄｔｈ １２３",
    "안녕하세요 고양이 사진", "مرحبا بالعالم قطة", "שלום עולם חתול",
    "नमस्ते दुनिया बिल्ली", "สวัสดีชาวโลก แมว",
    "ქართული ᲥᲐᲠᲗᲣᲚᲘ", "հայերեն ՀԱՅԵՐԵՆ", "ᏣᎳᎩ ꮳꮃꭹ",
    "😀 smile 😂🤣", "👩‍👩‍👧‍👦 family", "👍🏽 thumbs", "🇩🇪🇯🇵 flags",
    "❤️ heart ♥", "dog🐶cat🐱", "“curly” ‘quotes’ it’s we’ll", "„low“ ‚quotes‛ «french»",
    "ﬁne ﬂow eﬀect oﬃce ﬆ", "x² + y³ = z¹", "½ ¾ ⅓ Ⅷ ⅷ", "①②③ ⓐⒷ",
    "٣٤٥ ४५६ ໑໒", "m² °C µm Å Ω", "© ® ™ § ¶ †", "€100 £50 ¥20 ₹10",
    "→ ← ↑ ⇒ ∞ ≠ ≤ ∑ √",
    "en – em — dash … ellipsis", "no\u00a0break\u2003em\u2009thin\u3000ideographic", "zero\u200bwidth\u200dsigns",
    "soft\u00adhyphen", "line\u2028sep\u2029para\u0085next",
    "\ufeffbyte order mark", "control\x01\x02\x7fchars", "tab\x0bvertical\x0cform", "file\x1csep\x1dgroup\x1erec\x1funit",
    "\ufffd replaced", "ſ long's 'ſ '\u017f",
    "<ſtart_of_text>", "𝒜 𝔸 𝟘 math", "𐐀𐐨 deseret", "ⅰ Ⓐ ⓐ", "ÿ Ÿ", "K Å signs", "ᾳ ᾼ ῼ",
    "ʼn ŉ", "a\u200dΣ", "Σ\u0345", "Aʰ Σ", "\U0001f9ff\U0010fffd",
]

COMPOSED = ["e\u0301te\u0301 A\u030a o\u0323\u0302", "\u1112\u1161\u11ab\u1100\u1173\u11af", "Zoe\u0308 & cafe\u0301"]


def reference(path, merges):
    if "torch" not in sys.modules:
        stub = types.ModuleType("torch")
        stub.Tensor = stub.LongTensor = object
        sys.modules["torch"] = stub
    text = open(path, encoding="utf-8").read()
    at = text.index("_tokenizer = SimpleTokenizer()")            # what follows needs torch or a file beside it
    module = types.ModuleType("tokenizer")
    module.__file__ = path
    code = text[:at].replace("bpe_path: str = default_bpe()", "bpe_path: str")
    exec(compile(code.replace("get_reduction_mask_fn", "id"), path, "exec"), module.__dict__)
    raw = open(merges, "rb").read()
    with tempfile.NamedTemporaryFile(suffix=".gz") as packed:
        packed.write(raw if raw[:2] == b"\x1f\x8b" else gzip.compress(raw))
        packed.flush()
        return module.SimpleTokenizer(packed.name)


def tokens(tokenizer, caption, context=77):
    ids = [tokenizer.sot_token_id] + tokenizer.encode(caption) + [tokenizer.eot_token_id]
    return ids if len(ids) <= context else ids[:context - 1] + [tokenizer.eot_token_id]


def random_captions(count, seed=1):
    """Pieces of the ones above, mixed, and random characters of all kinds."""
    draw, pieces = random.Random(seed), [p for text in PLAIN + ENTITIES + UNICODE for p in text[:60].split(" ") if p]
    out = []
    for k in range(count):
        words = [draw.choice(pieces) for _ in range(draw.randrange(1, 12))]
        text = draw.choice([" ", " ", " ", "", "-", "\n"]).join(words)
        # Names of entities are read as HTML writes them; ftfy knows them in capitals, too.
        out.append(draw.choice([text, text[::-1]] if "&" in text else [text, text.upper(), text.title(), text[::-1]]))
    return out


def measure(tokenizer, path):
    captions = open(path, encoding="utf-8").read().split("\n")
    for _ in range(2):
        start = time.perf_counter()
        made = sum(len(tokens(tokenizer, caption)) - 2 for caption in captions)
        seconds = time.perf_counter() - start
        print(f"{made} tokens, {seconds:.3f} s, {made / seconds / 1e6:.3f} million tokens/s")


def main():
    tokenizer = reference(sys.argv[1], sys.argv[2])
    captions = PLAIN + ENTITIES + UNICODE + COMPOSED + random_captions(200)
    with open(sys.argv[3], "w", encoding="ascii") as out:
        for caption in captions:
            out.write(caption.encode("utf-8").hex() + "\t" + " ".join(map(str, tokens(tokenizer, caption))) + "\n")
    print(f"{len(captions)} captions")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    if sys.argv[1] == "--time":
        measure(reference(sys.argv[2], sys.argv[3]), sys.argv[4])
    else:
        main()
