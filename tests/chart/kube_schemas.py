"""Writes one JSON schema a kind for kubeconform, out of Kubernetes' own OpenAPI document.

usage: kube_schemas.py OPENAPI_JSON FOLDER

Schemas are strict: a field that the document does not name is an error. kubeconform itself would download them.
"""

import json
import pathlib
import re
import sys

PREFIX = "#/definitions/"


def as_json_schema(node):
    """The OpenAPI v2 schema as a JSON schema that allows no other fields."""
    if node.get("format") == "int-or-string":
        return {"type": ["string", "integer"]}
    schema = {key: node[key] for key in ("$ref", "type", "format", "required", "enum") if key in node}
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            schema[key] = as_json_schema(node[key])
    if "properties" in node:
        schema["properties"] = {name: as_json_schema(value) for name, value in node["properties"].items()}
        schema.setdefault("additionalProperties", False)
    return schema


def references(schema):
    """Names of the definitions that the schema refers to."""
    if "$ref" in schema:
        yield schema["$ref"].removeprefix(PREFIX)
    for child in [schema.get("items"), schema.get("additionalProperties"), *schema.get("properties", {}).values()]:
        if child:
            yield from references(child)


def closure(name, definitions):
    """`name` and every definition that it needs."""
    found, waiting = set(), [name]
    while waiting:
        current = waiting.pop()
        if current not in found:
            found.add(current)
            waiting.extend(references(definitions[current]))
    return sorted(found)


def main(openapi, folder):
    document = json.loads(pathlib.Path(openapi).read_text())
    kinds = [(name, kind) for name, definition in document["definitions"].items()
             for kind in definition.get("x-kubernetes-group-version-kind", [])]
    definitions = {name: as_json_schema(definition) for name, definition in document["definitions"].items()}
    # A quantity may be written as a number as well.
    definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"] = {"type": ["string", "number"]}
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, kind in kinds:
        group = re.sub(r"\..*", "", kind["group"])  # As kubeconform cuts it.
        file = "-".join(filter(None, [kind["kind"].lower(), group, kind["version"].lower()])) + ".json"
        schema = {"$ref": PREFIX + name, "definitions": {each: definitions[each] for each in closure(name, definitions)}}
        (folder / file).write_text(json.dumps(schema))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
