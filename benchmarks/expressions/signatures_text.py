"""Strings, regular expressions, JSON, hashes, encodings and URLs."""

from __future__ import annotations

from benchmarks.expressions.signatures import Choice, Signature

KINDS = {
    "text": "string",
    "json": "string",
    "url": "string",
    "base64": "string",
    "position": "int",
    "sentence": "string",
}

VALUES = {
    "text": [
        *("", " ", "Spark SQL", "  both  ", "xxabcxx", "a.b.c.d", "aaaa", "aßé😀b", "ΑΣ ΟΔΟΣ", "a1b22c333", "%_\\"),
        *("foo@bar.com", "line\nbreak", "cr\r\n", "tab\there", "ÀÉÎ", "ﬁx", "abcABC123", "\u0130i", "a,b;c d", "ǆ"),
    ],
    "json": [
        *('{"a":1}', '{"a":{"b":[1,2,{"c":"x"}]}}', "[1,2,3]", '[{"a":1},{"a":null}]', '{"a":null}', '{"a":"x"}', ""),
        *("null", "{", "{'a':'b'}", '{"a":1.50,"b":1e5}', '{"a":[],"b":true}', '{"b":7,"a":"1"} rest', "[[1],[2,3]]"),
    ],
    "url": [
        *("http://spark.apache.org/path?query=1", "https://user:pw@host.com:8080/a/b.html?k=v&k2=v2#frag", "no url"),
        *("mailto:a@b.c", "/just/path?x=y", "http://ho st/", "", "http://[::1]:80/x", "a+b%20c", "%zz", "é &="),
    ],
    "base64": ["", "YWJj", "YW Jj", "YWI=", "YQ==", "YWJjYWJj"],
    "position": [0, 1, 2, 3, 5, -1, -2, -5, 100, 2**31 - 1, -(2**31)],
    "sentence": ["the quick brown fox", "a-b c_d  e", "ONE two Three", "", "ß é 😀x"],
}

_TEXTS = ("string", "text")
_ONE_TEXT = {
    "Upper": "upper", "Lower": "lower", "InitCap": "initcap", "Reverse": "reverse", "StringTrim": "trim",
    "StringTrimLeft": "ltrim", "StringTrimRight": "rtrim", "SoundEx": "soundex", "UrlEncode": "url_encode",
    "MakeValidUTF8": "make_valid_utf8", "Quote": "quote", "Mask": "mask",
}  # fmt: skip
_COUNTS = {"Length": "length", "OctetLength": "octet_length", "BitLength": "bit_length"}
_PATTERNS = Choice(
    *(
        "'a'",
        "'[a-c]+'",
        r"'\\d+'",
        r"'(\\w+)@(\\w+)\\.com'",
        "'^a|b$'",
        "'(?i)ABC'",
        "'.'",
        "'x*'",
        r"'\\s+'",
        "'(a)(b)?'",
    ),
    *(r"'\\p{L}+'", "'[^a-z]'", "'a{2,3}'", "'(?s)e.b'", r"'\\bbar\\b'", "'(?<=a)b'", "'a.*?c'", "'é|ß'", "'|'", "''"),
)
_LIKES = Choice("'a%'", "'%b%'", "'_b_'", "'%'", "''", "'%\\\\%%'", "'a.c'", "'%é%'", "'_'", "'abc'", "'%c'", "'a%c'")
_PARTS = Choice("'a'", "''", "'.'", "'b'", "'aa'", "', '", "'é'", "'xx'", "' '")


def _letters() -> list[Signature]:
    rows = [
        Signature(name, f"{function}({{0}})", (kind,), "string")
        for name, function in _ONE_TEXT.items()
        for kind in _TEXTS
    ]
    rows += [Signature("InitCap", "initcap({0})", ("sentence",), "string")]
    for name, function in _COUNTS.items():
        rows += [Signature(name, f"{function}({{0}})", (kind,), "int") for kind in ("string", "text", "binary")]
    return [
        *rows,
        Signature("Ascii", "ascii({0})", ("text",), "int"),
        Signature("Chr", "chr({0})", ("bigint",), "string"),
        Signature("StringSpace", "space({0})", ("small",), "string"),
        Signature("StringRepeat", "repeat({0}, {1})", ("text", "small"), "string"),
        Signature("Luhncheck", "luhn_check({0})", ("number_string",), "boolean"),
        Signature("Levenshtein", "levenshtein({0}, {1})", ("string", "text"), "int"),
        Signature("Levenshtein", "levenshtein({0}, {1}, {2})", ("text", "string", Choice("0", "1", "3", "10")), "int"),
        Signature("IsValidUTF8", "is_valid_utf8({0})", ("text",), "boolean"),
    ]


def _parts() -> list[Signature]:
    rows = []
    for kind in _TEXTS:
        rows += [
            Signature("Substring", "substring({0}, {1}, {2})", (kind, "position", "position"), "string"),
            Signature("Substring", "substring({0}, {1})", (kind, "position"), "string"),
            Signature("Substring", "substring({0}, {1}, 2)", (kind, Choice("0", "1", "-2", "3", "-9", "50")), "string"),
            Signature("Left", "left({0}, {1})", (kind, "position"), "string"),
            Signature("Right", "right({0}, {1})", (kind, "small"), "string"),
            Signature("SubstringIndex", "substring_index({0}, {1}, {2})", (kind, _PARTS, "small"), "string"),
            Signature("StringTrim", "trim(both {1} from {0})", (kind, _PARTS), "string"),
            Signature("StringTrimLeft", "ltrim({1}, {0})", (kind, "string"), "string"),
            Signature("StringTrimRight", "rtrim({1}, {0})", (kind, _PARTS), "string"),
            Signature(
                "StringLPad", "lpad({0}, {1}, {2})", (kind, "small", Choice("'x'", "'xy'", "''", "'é'")), "string"
            ),
            Signature("StringRPad", "rpad({0}, {1}, {2})", (kind, Choice("0", "3", "7", "-1"), "string"), "string"),
            Signature("Overlay", "overlay({0}, {1}, {2}, {3})", (kind, "string", "position", "small"), "string"),
            Signature(
                "SplitPart", "split_part({0}, {1}, {2})", (kind, _PARTS, Choice("1", "2", "-1", "-3", "9")), "string"
            ),
            Signature(
                "StringSplit", "split({0}, {1}, {2})", (kind, _PATTERNS, Choice("-1", "0", "1", "2")), "array<string>"
            ),
            Signature("Mask", "mask({0}, 'Q', 'q', NULL, '*')", (kind,), "string"),
        ]
    return [
        *rows,
        Signature("Substring", "substring({0}, {1}, {2})", ("binary", "position", "small"), "binary"),
        Signature("BinaryPad", "lpad({0}, {1}, {2})", ("binary", "small", "binary"), "binary"),
        Signature("BinaryPad", "rpad({0}, {1}, X'AB')", ("binary", "small"), "binary"),
        Signature("Overlay", "overlay({0}, {1}, {2})", ("binary", "binary", "position"), "binary"),
    ]


def _building() -> list[Signature]:
    return [
        Signature("Concat", "concat({0}, {1}, {2})", ("string", "text", "string"), "string"),
        Signature("Concat", "({0} || {1})", ("binary", "binary"), "binary"),
        Signature("Concat", "concat({0}, {1})", ("array<int>", "array<int>"), "array<int>"),
        Signature("Concat", "concat({0}, {1})", ("array<string>", "array<string>"), "array<string>"),
        Signature("ConcatWs", "concat_ws({0}, {1}, {2})", (Choice("','", "''", "'--'"), "string", "text"), "string"),
        Signature("ConcatWs", "concat_ws({0}, {1}, {2})", ("string", "array<string>", "string"), "string"),
        Signature("ConcatWs", "concat_ws(',', {0}, {1})", ("array<string>", "array<string>"), "string"),
        Signature("StringReplace", "replace({0}, {1}, {2})", ("text", _PARTS, "string"), "string"),
        Signature("StringReplace", "replace({0}, {1}, 'zz')", ("text", _PARTS), "string"),
        Signature(
            "StringTranslate",
            "translate({0}, {1}, {2})",
            ("text", Choice("'abc'", "'aß'", "''"), Choice("'12'", "''")),
            "string",
        ),
        Signature("Elt", "elt({0}, {1}, {2})", ("small", "string", "text"), "string"),
        Signature("StringToMap", "str_to_map({0}, {1}, ':')", ("text", Choice("','", "'[0-9]'"))),
        Signature("Reverse", "reverse({0})", ("array<int>",), "array<int>"),
        Signature(
            "FormatString",
            "format_string({0}, {1}, {2})",
            (Choice("'%s|%s'", "'%5s %-4s.'", "'%2$s %1$s'", "'%.1s%s'"), "text", "int"),
            "string",
        ),
        Signature(
            "FormatString",
            "format_string({0}, {1})",
            (Choice("'%d'", "'%05d'", "'%,d'", "'%x'", "'%+d'", "'%(d'", "'%o'"), "int"),
            "string",
        ),
        Signature(
            "FormatString",
            "format_string({0}, {1})",
            (Choice("'%.2f'", "'%e'", "'%,.1f'", "'%10.3f'", "'%s'"), "double"),
            "string",
        ),
        Signature("FormatNumber", "format_number({0}, {1})", ("double", Choice("0", "2", "5", "-1"))),
        Signature("FormatNumber", "format_number({0}, {1})", ("bigint", Choice("0", "2", "'#,##0.0'"))),
        Signature("FormatNumber", "format_number({0}, {1})", ("decimal(20,5)", Choice("0", "2", "7", "'0.0##'"))),
        Signature(
            "ToCharacter",
            "to_char({0}, {1})",
            ("decimal(5,2)", Choice("'999.99'", "'S000.00'", "'$99.9'", "'999.99MI'", "'9,999.99PR'")),
        ),
        Signature("ToNumber", "to_number({0}, {1})", ("number_string", Choice("'999'", "'S99.99'", "'9,999'"))),
        Signature("TryToNumber", "try_to_number({0}, {1})", ("number_string", Choice("'999'", "'S99.99'", "'9,999'"))),
    ]


def _search() -> list[Signature]:
    rows = []
    for name, function in (("Contains", "contains"), ("StartsWith", "startswith"), ("EndsWith", "endswith")):
        rows += [
            Signature(name, f"{function}({{0}}, {{1}})", ("text", _PARTS), "boolean"),
            Signature(name, f"{function}({{0}}, {{1}})", ("string", "string"), "boolean"),
            Signature("BinaryPredicate", f"{function}({{0}}, {{1}})", ("binary", "binary"), "boolean"),
        ]
    for kind in _TEXTS:
        rows += [
            Signature("Like", "({0} like {1})", (kind, _LIKES), "boolean"),
            Signature("Like", "({0} like {1})", (kind, Choice("'a/%'", "'/_%'", "'//'"))),
            Signature("ILike", "({0} ilike {1})", (kind, _LIKES), "boolean"),
            Signature("RLike", "({0} rlike {1})", (kind, _PATTERNS), "boolean"),
            Signature(
                "RegExpExtract",
                "regexp_extract({0}, {1}, {2})",
                (kind, _PATTERNS, Choice("0", "1", "2", "-1")),
                "string",
            ),
            Signature(
                "RegExpExtractAll",
                "regexp_extract_all({0}, {1}, {2})",
                (kind, _PATTERNS, Choice("0", "1")),
                "array<string>",
            ),
            Signature(
                "RegExpReplace",
                "regexp_replace({0}, {1}, {2})",
                (kind, _PATTERNS, Choice("'X'", "'<$0>'", "''", "'$1'")),
            ),
            Signature("RegExpInStr", "regexp_instr({0}, {1})", (kind, _PATTERNS), "int"),
            Signature("RegExpSubStr", "regexp_substr({0}, {1})", (kind, _PATTERNS), "string"),
            Signature("RegExpCount", "regexp_count({0}, {1})", (kind, _PATTERNS), "int"),
            Signature("StringInstr", "instr({0}, {1})", (kind, _PARTS), "int"),
            Signature("StringInstr", "instr({0}, {1})", (kind, "string"), "int"),
            Signature("StringLocate", "locate({1}, {0}, {2})", (kind, "string", "small"), "int"),
            Signature("FindInSet", "find_in_set({0}, {1})", ("string", kind), "int"),
        ]
    return rows


def _json() -> list[Signature]:
    paths = Choice("'$.a'", "'$'", "'$.a.b[2].c'", "'$[*].a'", "'$[0]'", "'$.a[*]'", "'x'", "'$.b'", "'$[*][*]'")
    schemas = ("a int", "a string", "a double, b int", "a array<int>", "a struct<b:array<string>>", "array<int>")
    rows = [Signature("JsonToStructs", f"from_json({{0}}, '{schema}')", ("json",)) for schema in schemas]
    for kind in (
        "array<int>",
        "array<string>",
        "map<string,int>",
        "map<int,string>",
        "struct<a:int,b:string>",
        "array<double>",
    ):
        rows.append(Signature("StructsToJson", "to_json({0})", (kind,), "string"))
    for kind in ("timestamp", "date", "double", "decimal(20,5)", "binary", "text", "timestamp_ntz"):
        rows.append(Signature("StructsToJson", "to_json(named_struct('x', {0}, 'y', {0}))", (kind,), "string"))
    return [
        *rows,
        Signature("GetJsonObject", "get_json_object({0}, {1})", ("json", paths), "string"),
        Signature("LengthOfJsonArray", "json_array_length({0})", ("json",), "int"),
        Signature("JsonObjectKeys", "json_object_keys({0})", ("json",), "array<string>"),
    ]


def _bytes() -> list[Signature]:
    rows = []
    for kind in (
        *(
            "boolean",
            "tinyint",
            "smallint",
            "int",
            "bigint",
            "float",
            "double",
            "decimal(5,2)",
            "decimal(38,18)",
            "string",
        ),
        *("text", "binary", "date", "timestamp", "array<int>", "array<string>", "struct<a:int,b:string>"),
    ):
        rows.append(Signature("Murmur3Hash", "hash({0}, {1})", (kind, "int"), "int"))
        rows.append(Signature("XxHash64", "xxhash64({0}, {1})", ("string", kind), "bigint"))
    charset = Choice("'UTF-8'", "'UTF-16'", "'US-ASCII'", "'ISO-8859-1'", "'UTF-32'", "'xx'", "'UTF-16LE'")
    part = Choice("'HOST'", "'PATH'", "'QUERY'", "'REF'", "'PROTOCOL'", "'FILE'", "'AUTHORITY'", "'USERINFO'")
    return [
        *rows,
        Signature("Md5", "md5({0})", ("binary",), "string"),
        Signature("Sha1", "sha1({0})", ("binary",), "string"),
        Signature("Sha2", "sha2({0}, {1})", ("binary", Choice("0", "224", "256", "384", "512", "7")), "string"),
        Signature("Crc32", "crc32({0})", ("binary",), "bigint"),
        Signature("Base64", "base64({0})", ("binary",), "string"),
        Signature("UnBase64", "unbase64({0})", ("base64",), "binary"),
        Signature("Encode", "encode({0}, {1})", ("text", charset), "binary"),
        Signature("Decode", "decode({0}, {1})", ("binary", charset), "string"),
        Signature("ToBinary", "to_binary({0}, {1})", ("base64", Choice("'hex'", "'utf-8'", "'base64'")), "binary"),
        Signature("TryToBinary", "try_to_binary({0}, {1})", ("text", Choice("'hex'", "'utf-8'", "'base64'")), "binary"),
        Signature("ParseUrl", "parse_url({0}, {1})", ("url", part), "string"),
        Signature("ParseUrl", "parse_url({0}, 'QUERY', {1})", ("url", Choice("'k'", "'query'")), "string"),
        Signature("TryParseUrl", "try_parse_url({0}, {1})", ("url", part), "string"),
        Signature("UrlDecode", "url_decode({0})", ("url",), "string"),
        Signature("TryUrlDecode", "try_url_decode({0})", ("url",), "string"),
    ]


SIGNATURES = [*_letters(), *_parts(), *_building(), *_search(), *_json(), *_bytes()]
