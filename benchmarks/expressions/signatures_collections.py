"""Arrays, maps, structs and functions of elements."""

from __future__ import annotations

from benchmarks.expressions.signatures import Choice, Signature

_INTS, _TEXTS, _DOUBLES, _NESTED = "array<int>", "array<string>", "array<double>", "array<array<int>>"
_ARRAYS = (_INTS, _TEXTS, _DOUBLES, _NESTED)
_ELEMENTS = {_INTS: "int", _TEXTS: "string", _DOUBLES: "double", _NESTED: _INTS}
_MAP, _OTHER_MAP, _STRUCT = "map<string,int>", "map<int,string>", "struct<a:int,b:string>"


def _of_arrays() -> list[Signature]:
    rows = []
    for kind in _ARRAYS:
        element = _ELEMENTS[kind]
        one, two, both = (kind,), (kind, kind), (kind, element)
        rows += [
            Signature("CreateArray", "array({0}, {1}, {0})", (element, element), kind),
            Signature("GetArrayItem", "{0}[{1}]", (kind, "small"), element),
            Signature("GetArrayItem", "get({0}, {1})", (kind, "small"), element),
            Signature("ElementAt", "element_at({0}, {1})", (kind, "small"), element),
            Signature("ElementAt", "try_element_at({0}, {1})", (kind, "small"), element),
            Signature("Size", "size({0})", one, "int"),
            Signature("Size", "array_size({0})", one, "int"),
            Signature("ArrayContains", "array_contains({0}, {1})", both, "boolean"),
            Signature("ArrayPosition", "array_position({0}, {1})", both, "bigint"),
            Signature("ArrayRemove", "array_remove({0}, {1})", both, kind),
            Signature("ArrayDistinct", "array_distinct({0})", one, kind),
            Signature("ArrayUnion", "array_union({0}, {1})", two, kind),
            Signature("ArrayIntersect", "array_intersect({0}, {1})", two, kind),
            Signature("ArrayExcept", "array_except({0}, {1})", two, kind),
            Signature("ArraysOverlap", "arrays_overlap({0}, {1})", two, "boolean"),
            Signature("ArrayMax", "array_max({0})", one, element),
            Signature("ArrayMin", "array_min({0})", one, element),
            Signature("SortArray", "sort_array({0})", one, kind),
            Signature("SortArray", "sort_array({0}, {1})", (kind, Choice("true", "false")), kind),
            Signature("ArraySort", "array_sort({0})", one, kind),
            Signature("ArrayInsert", "array_append({0}, {1})", both, kind),
            Signature("ArrayInsert", "array_prepend({0}, {1})", both, kind),
            Signature("ArrayInsert", "array_insert({0}, {1}, {2})", (kind, "small", element), kind),
            Signature("KnownNotContainsNull", "array_compact({0})", one, kind),
            Signature("ArrayRepeat", "array_repeat({0}, {1})", (element, "small"), kind),
            Signature("Reverse", "reverse({0})", one, kind),
            Signature("Concat", "concat({0}, {1})", two, kind),
            Signature("Slice", "slice({0}, {1}, {2})", (kind, "small", "small"), kind),
            Signature("ArraysZip", "arrays_zip({0}, transform({1}, x -> x))", two),
            Signature("ArrayTransform", "transform({0}, x -> x)", one, kind),
            Signature("ArrayTransform", "transform({0}, (x, n) -> n)", one, _INTS),
            Signature("ArrayFilter", "filter({0}, x -> x is not null)", one, kind),
            Signature("ArrayFilter", "filter({0}, x -> x > {1})", both, kind),
            Signature("ArrayExists", "exists({0}, x -> x = {1})", both, "boolean"),
            Signature("ArrayForAll", "forall({0}, x -> x >= {1})", both, "boolean"),
            Signature("ZipWith", "zip_with({0}, {1}, (x, y) -> coalesce(x, y))", two, kind),
        ]
    return rows


def _of_lambdas() -> list[Signature]:
    return [
        Signature("ArrayTransform", "transform({0}, x -> x + {1})", (_INTS, "int"), _INTS),
        Signature("ArrayTransform", "transform({0}, x -> size(x))", (_NESTED,), _INTS),
        Signature("ArrayTransform", "transform({0}, x -> transform(x, y -> y + size(x)))", (_NESTED,), _NESTED),
        Signature("ArrayTransform", "transform({0}, x -> 10 div x)", (_INTS,)),
        Signature("ArrayExists", "exists({0}, x -> 10 div x > 3)", (_INTS,), "boolean"),
        Signature("ArrayForAll", "forall({0}, x -> 10 div x > 3)", (_INTS,), "boolean"),
        Signature("ArrayAggregate", "aggregate({0}, 0L, (s, x) -> s + coalesce(x, 0))", (_INTS,), "bigint"),
        Signature("ArrayAggregate", "aggregate({0}, {1}, (s, x) -> s + x, s -> s * 2)", (_INTS, "int"), "int"),
        Signature("ArrayAggregate", "reduce({0}, '', (s, x) -> concat(s, x))", (_TEXTS,), "string"),
        Signature("ZipWith", "zip_with({0}, {1}, (x, y) -> x * y)", (_INTS, _INTS), _INTS),
        Signature(
            "ArraySort",
            "array_sort({0}, (x, y) -> case when x > y then -1 when x < y then 1 else 0 end)",
            (_TEXTS,),
        ),
        Signature("Flatten", "flatten({0})", (_NESTED,), _INTS),
        Signature("ArrayJoin", "array_join({0}, {1})", (_TEXTS, "string"), "string"),
        Signature("ArrayJoin", "array_join({0}, '-', {1})", (_TEXTS, "string"), "string"),
        Signature("Sequence", "sequence({0}, {1})", ("small", "small"), _INTS),
        Signature("Sequence", "sequence({0}, {1}, {2})", ("small", "small", "small"), _INTS),
        Signature("Sequence", "sequence({0}, date_add({0}, {1}))", ("date", "small")),
        Signature("Sequence", "sequence({0}, add_months({0}, {1}), interval 1 month)", ("date", "small")),
        Signature("Sequence", "sequence({0}, {0} + interval 2 days, interval 7 hours)", ("timestamp",)),
        Signature("Sequence", "sequence({0}, {0} + interval 3 months, interval 1 month)", ("timestamp",)),
        Signature("Sequence", "sequence({0}, {0} + interval 3 days, interval 1 day)", ("timestamp_ntz",)),
    ]


def _of_maps_and_structs() -> list[Signature]:
    rows = [
        Signature("CreateMap", "map({0}, {1}, 'k', {2})", ("string", "int", "int"), _MAP),
        Signature("MapFromArrays", "map_from_arrays({0}, {1})", (_TEXTS, _INTS), _MAP),
        Signature("MapFromEntries", "map_from_entries(array({0}))", (_STRUCT,)),
        Signature("TransformKeys", "transform_keys({0}, (k, v) -> concat(k, 'x'))", (_MAP,), _MAP),
        Signature("TransformKeys", "transform_keys({0}, (k, v) -> v)", (_MAP,)),
        Signature("TransformValues", "transform_values({0}, (k, v) -> v + {1})", (_MAP, "int"), _MAP),
        Signature("MapFilter", "map_filter({0}, (k, v) -> v > {1})", (_MAP, "int"), _MAP),
        Signature("MapZipWith", "map_zip_with({0}, {1}, (k, x, y) -> coalesce(x, y))", (_MAP, _MAP), _MAP),
        Signature("GetStructField", "{0}.a", (_STRUCT,), "int"),
        Signature("GetStructField", "{0}.b", (_STRUCT,), "string"),
        Signature("CreateNamedStruct", "named_struct('a', {0}, 'b', {1})", ("int", "string"), _STRUCT),
        Signature("GetArrayStructFields", "array({0}, {1}).b", (_STRUCT, _STRUCT), _TEXTS),
        Signature("ArrayDistinct", "array_distinct(array({0}, {1}, {0}))", (_STRUCT, _STRUCT)),
        Signature("SortArray", "sort_array(array({0}, {1}))", (_STRUCT, _STRUCT)),
    ]
    for kind, key, value in ((_MAP, "string", "int"), (_OTHER_MAP, "int", "string")):
        rows += [
            Signature("GetMapValue", "{0}[{1}]", (kind, key), value),
            Signature("ElementAt", "element_at({0}, {1})", (kind, key), value),
            Signature("ElementAt", "try_element_at({0}, {1})", (kind, key), value),
            Signature("Size", "cardinality({0})", (kind,), "int"),
            Signature("MapKeys", "map_keys({0})", (kind,), f"array<{key}>"),
            Signature("MapValues", "map_values({0})", (kind,), f"array<{value}>"),
            Signature("MapEntries", "map_entries({0})", (kind,)),
            Signature("MapConcat", "map_concat({0}, {1})", (kind, kind), kind),
            Signature("ArrayContains", "map_contains_key({0}, {1})", (kind, key), "boolean"),
        ]
    return rows


SIGNATURES = [*_of_arrays(), *_of_lambdas(), *_of_maps_and_structs()]
