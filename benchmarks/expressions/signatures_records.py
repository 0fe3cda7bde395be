"""Lines of CSV, and JSON with more types and odder texts."""

from __future__ import annotations

from benchmarks.expressions.signatures import Choice, Signature

KINDS = {"csv": "string", "odd_json": "string", "json_value": "string"}

VALUES = {
    "csv": [
        *(
            "1,a",
            "",
            ",",
            "1",
            '"1","a,b"',
            "1,a,2.5",
            " 1 , a ",
            "x,y",
            '1,"a""b"',
            "1,😀",
            "null,null",
            '1,"',
            "-7,é",
        ),
        *("2026-03-29,1.50", "9999999999,z", "1e2,true", '"",""', "NaN,inf"),
    ],
    "odd_json": [
        *('{"a":"\\ud83d\\ude00"}', '{"a":"\\u00e9\\n\\/"}', '{"a":1e400}', '{"a":12345678901234567890}', '{"a":01}'),
        *(
            '{"a":"2026-03-29T02:30:00Z"}',
            '{"a":"2026-03-29"}',
            '{"a":1.5,"a":2.5}',
            '{"A":1}',
            '{"a":NaN}',
            "[]",
            "{}",
        ),
        *('{"a":"NaN"}', '{"a":-0.0}', '{"a":true}', '{"a":{"b":1}}', '{"a":[{"b":1},null]}', '{"a":"1"}', '{"a":""}'),
        *('{"a" : 2147483648}', '{"a":1.7}', '{"a":"Infinity"}', '[{"a":1}]', '{"a":1}{"a":2}', " null ", '"x"', "1"),
        *('{"a":"\\x"}', '{"a":1,}', "{a:1}", '{"a":"t\tb"}', '{"a":[1,"2",null]}', '{"a":{"k":1,"l":null}}', "[1"),
    ],
    "json_value": ['{"a":1,"b":[1,{"c":"\\u00e9"}]}', '{"a.b":{"c d":2}}', "[[1,2],[3]]", '{"😀":"é"}', "{}", "x"],
}


def _of_json() -> list[Signature]:
    types = (
        *("string", "int", "bigint", "double", "float", "boolean", "decimal(10,2)", "date", "timestamp", "array<int>"),
        *(
            "map<string,int>",
            "struct<b:int>",
            "array<struct<b:int>>",
            "tinyint",
            "binary",
            "timestamp_ntz",
            "array<string>",
        ),
        "decimal(38,18)",
    )
    rows = [Signature("JsonToStructs", f"from_json({{0}}, 'a {type}')", ("odd_json",)) for type in types]
    rows += [
        Signature("JsonToStructs", f"from_json({{0}}, '{type}')", ("odd_json",))
        for type in (
            *("map<string,string>", "map<string,int>", "array<struct<a:int>>", "array<string>", "array<double>"),
        )
    ]
    rows += [
        Signature("JsonToStructs", f"from_json({{0}}, 'a int, b string', map({option}))", ("odd_json",))
        for option in (
            *(
                "'mode', 'FAILFAST'",
                "'mode', 'PERMISSIVE'",
                "'allowSingleQuotes', 'false'",
                "'allowUnquotedFieldNames', 'true'",
            ),
            *("'allowNumericLeadingZeros', 'true'", "'allowUnquotedControlChars', 'true'", "'allowComments', 'true'"),
        )
    ]
    rows += [
        Signature("JsonToStructs", "from_json({0}, 'a int, _corrupt_record string')", ("odd_json",)),
        Signature(
            "JsonToStructs",
            "from_json({0}, 'a timestamp', map('timestampFormat', {1}))",
            ("odd_json", Choice("'yyyy-MM-dd'", "'yyyy-MM-dd\\'T\\'HH:mm:ssX'")),
        ),
        Signature("JsonToStructs", "from_json({0}, 'a date', map('dateFormat', 'yyyy-MM-dd'))", ("odd_json",)),
        Signature(
            "GetJsonObject", "get_json_object({0}, {1})", ("odd_json", Choice("'$.a'", "'$'", "'$.a[0]'", "'$.a.b'"))
        ),
        Signature(
            "GetJsonObject",
            "get_json_object({0}, {1})",
            (
                "json_value",
                Choice("'$.b[1].c'", "'$[\\'a.b\\'][\\'c d\\']'", "'$[0][1]'", "'$[*][0]'", "'$.😀'", "'$.b[*]'"),
            ),
        ),
        Signature("LengthOfJsonArray", "json_array_length({0})", ("odd_json",), "int"),
        Signature("JsonObjectKeys", "json_object_keys({0})", ("odd_json",), "array<string>"),
        Signature("StructsToJson", "to_json(named_struct('a', {0}), map('ignoreNullFields', 'false'))", ("string",)),
        Signature("StructsToJson", "to_json(struct({0}), map('timestampFormat', 'dd/MM/yyyy'))", ("timestamp",)),
        Signature("StructsToJson", "to_json(struct({0}, {1}))", ("decimal(38,18)", "float"), "string"),
        Signature("StructsToJson", "to_json(struct({0}), map('dateFormat', 'yy-MM'))", ("date",), "string"),
    ]
    return rows


def _of_csv() -> list[Signature]:
    schemas = (
        *(
            "a int, b string",
            "a string",
            "a double, b boolean",
            "a date, b decimal(5,2)",
            "a timestamp",
            "a bigint, b int",
        ),
        "a int, b string, c double",
    )
    rows = [Signature("CsvToStructs", f"from_csv({{0}}, '{schema}')", ("csv",)) for schema in schemas]
    rows += [
        Signature("CsvToStructs", f"from_csv({{0}}, 'a int, b string', map({option}))", ("csv",))
        for option in ("'mode', 'FAILFAST'", "'sep', ';'", "'nullValue', 'null'", "'ignoreLeadingWhiteSpace', 'true'")
    ]
    rows += [
        Signature("StructsToCsv", "to_csv(struct({0}, {1}))", (left, right), "string")
        for left, right in (
            *(("int", "string"), ("double", "text"), ("date", "timestamp"), ("boolean", "decimal(20,5)")),
            *(("timestamp_ntz", "float"), ("bigint", "csv")),
        )
    ]
    return [*rows, Signature("StructsToCsv", "to_csv(struct({0}), map('sep', ';', 'quoteAll', 'true'))", ("text",))]


SIGNATURES = [*_of_json(), *_of_csv()]
