"""What PostgreSQL's own operators and functions say of the parameters they are given."""

from __future__ import annotations

from collections.abc import Mapping

from pgstrata.traffic.synthetic.use import Kind

COMPARED: Mapping[str, Kind] = {
    "=": "equal",
    "<>": "unequal",
    "!=": "unequal",
    "<": "less",
    "<=": "less",
    ">": "greater",
    ">=": "greater",
    "~": "regular",
    "~*": "regular",
    "!~": "regular",
    "!~*": "regular",
    "~~": "like",
    "~~*": "like",
    "!~~": "like",
    "!~~*": "like",
    "@@": "element",
    "@>": "contains",
    "<@": "within",
    "&&": "contains",
    "<->": "equal",
    "%": "guess",
}
TURNED: Mapping[Kind, Kind] = {
    "less": "greater",
    "greater": "less",
    "contains": "within",
    "within": "contains",
}
KEYS: Mapping[str, str | None] = {
    **dict.fromkeys(("->", "->>", "?")),
    **dict.fromkeys(("#>", "#>>", "?|", "?&", "#-"), "list"),
    "@?": "path",
    "@@": "predicate",
}
"""As what the key of a document is written behind an operator; `@@` where the document is no text."""
DOCUMENT_KEYS = frozenset(KEYS) - {"@@"}
PATH_OPERATORS = {"#>": "->", "#>>": "->>", "#-": "->"}
"""Operators on a path of keys, and the operator of its last key."""
PATHS = {
    "jsonb_path_exists": "@?",
    "jsonb_path_query": "@?",
    "jsonb_path_query_array": "@?",
    "jsonb_path_query_first": "@?",
    "jsonb_path_match": "@@",
}
"""Functions whose second argument is a path into a document, and operators of the same meaning."""
EXTRACTING = {
    "json_extract_path": "->",
    "jsonb_extract_path": "->",
    "json_extract_path_text": "->>",
    "jsonb_extract_path_text": "->>",
}
"""Functions of a document and keys, and the operator of the last key."""
ARITHMETIC = frozenset(("+", "-", "*", "/", "%", "||", "^"))
SAME = {"lower": str.lower, "upper": str.upper}
# The value of their first argument, or nearly.
THROUGH = frozenset(
    """
    lower upper btrim trim ltrim rtrim date unaccent like_escape similar_to_escape abs to_tsquery
    plainto_tsquery phraseto_tsquery websearch_to_tsquery to_date timestamp timestamptz min max
    """.split()  # noqa: SIM905
)
QUERIES = frozenset(
    ("to_tsquery", "plainto_tsquery", "phraseto_tsquery", "websearch_to_tsquery", "to_tsvector")
)

# Usual values of arguments, by their places.
USUAL: Mapping[str, Mapping[int, str]] = {
    "date_trunc": {0: "day"},
    "date_part": {0: "day"},
    "extract": {0: "day"},
    "to_char": {1: "YYYY-MM-DD"},
    "to_date": {1: "YYYY-MM-DD"},
    "to_timestamp": {1: "YYYY-MM-DD"},
    "string_agg": {1: ","},
    "array_to_string": {1: ","},
    "string_to_array": {1: ","},
    "split_part": {1: " ", 2: "1"},
    "round": {1: "2"},
    "trunc": {1: "2"},
    "left": {1: "10"},
    "right": {1: "10"},
    "substring": {1: "1", 2: "10"},
    "substr": {1: "1", 2: "10"},
    "lpad": {1: "10", 2: " "},
    "rpad": {1: "10", 2: " "},
    "lag": {1: "1", 2: "0"},
    "lead": {1: "1", 2: "0"},
    "ntile": {0: "4"},
    "count": {0: "1"},
    "percentile_cont": {0: "0.5"},
    "percentile_disc": {0: "0.5"},
    "concat": dict.fromkeys(range(20), " "),
    "concat_ws": dict.fromkeys(range(20), " "),
    "replace": {1: "a", 2: "b"},
    "array_length": {1: "1"},
    "nullif": {1: "0"},
    "timezone": {0: "UTC"},
}
SUMMED = frozenset(("sum", "avg", "stddev", "variance"))
AGGREGATES = SUMMED | frozenset(
    """
    count min max string_agg array_agg json_agg jsonb_agg json_object_agg jsonb_object_agg bool_and
    bool_or every percentile_cont percentile_disc mode bit_and bit_or corr regr_slope
    """.split()  # noqa: SIM905
)
# Of PostgreSQL's own functions those that change nothing; others may.
READING = (
    AGGREGATES
    | THROUGH
    | QUERIES
    | frozenset(USUAL)
    | frozenset(PATHS)
    | frozenset(EXTRACTING)
    | frozenset(
        """
    now clock_timestamp statement_timestamp transaction_timestamp age coalesce length char_length
    octet_length position strpos floor ceil ceiling sqrt power exp ln log sign mod greatest least
    random md5 sha256 encode decode concat format initcap reverse repeat starts_with regexp_replace
    regexp_matches regexp_match regexp_split_to_table regexp_split_to_array translate ascii chr
    overlay to_number make_date make_interval justify_days extract isfinite row_number rank
    dense_rank percent_rank cume_dist first_value last_value nth_value array_append array_cat
    array_position array_remove cardinality unnest generate_series generate_subscripts
    json_build_object jsonb_build_object json_build_array jsonb_build_array to_json to_jsonb
    row_to_json json_array_elements jsonb_array_elements json_array_elements_text
    jsonb_array_elements_text jsonb_each jsonb_each_text jsonb_object_keys jsonb_array_length
    json_array_length jsonb_set jsonb_insert jsonb_typeof json_typeof jsonb_strip_nulls jsonb_pretty
    json_object_keys json_each json_each_text jsonb_to_tsvector tsvector_to_array regexp_count
    array_to_json string_agg array_prepend array_positions array_replace array_upper array_lower
    ts_rank ts_rank_cd ts_headline setweight similarity word_similarity st_distance st_dwithin
    st_intersects st_contains st_makepoint st_setsrid current_setting current_database
    current_schema current_user version pg_backend_pid pg_typeof txid_current_snapshot lower_inc
    upper_inc isempty range_merge int4range int8range numrange tsrange tstzrange daterange host
    width_bucket quote_ident quote_literal timezone overlaps gen_random_uuid grouping
    """.split()  # noqa: SIM905
    )
)
# Of a sequence, a setting, a table.
NAMING = frozenset(
    """
    nextval currval setval current_setting set_config to_regclass to_regproc to_regtype
    pg_relation_size pg_total_relation_size pg_table_size pg_get_serial_sequence has_table_privilege
    has_schema_privilege dblink dblink_exec pg_sleep
    """.split()  # noqa: SIM905
)
LOCKS = frozenset(
    f"pg_{tried}advisory_{of}lock{shared}"
    for tried in ("", "try_")
    for of in ("", "xact_", "un")
    for shared in ("", "_shared")
)


__all__ = [
    "AGGREGATES",
    "ARITHMETIC",
    "COMPARED",
    "DOCUMENT_KEYS",
    "EXTRACTING",
    "KEYS",
    "LOCKS",
    "NAMING",
    "PATHS",
    "PATH_OPERATORS",
    "QUERIES",
    "READING",
    "SAME",
    "SUMMED",
    "THROUGH",
    "TURNED",
    "USUAL",
]
