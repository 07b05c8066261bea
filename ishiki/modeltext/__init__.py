"""What models write, read: JSON that is nearly JSON, values by a tool's schema, calls in any grammar that we know.

A leaf below the core: it knows text, JSON and schemas, and no engine, tool or platform.

* `json_text`: JSON, strict or repaired; `python_text`: literals and calls in Python's own form
* `schema_values`: what text means where a schema says which types may stand; `coercion`: whole arguments
* `xml_scanner`, `element_values`, `tagged_calls`, `yaml_values`: calls written as elements
* `call_marks`: where call syntax begins in a text; `call_reading`: the calls that it holds
"""
