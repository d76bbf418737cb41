// Ajv, which the language server brings along, in its strict mode: is the schema sound, and does it take or refuse the
// values on standard input? Prints the places of those that it refuses.
"use strict";
const fs = require("node:fs");
const { createRequire } = require("node:module");
const [, , modules, schema] = process.argv;
const Ajv = createRequire(modules + "/")("ajv/dist/2020").default;
// `enumDescriptions` is a word of editors; `required` stands apart from its properties in `oneOf` on purpose.
const ajv = new Ajv({ strict: true, strictRequired: false, allowUnionTypes: true, strictTypes: false });
ajv.addKeyword("enumDescriptions");
const validate = ajv.compile(JSON.parse(fs.readFileSync(schema, "utf8")));
const values = JSON.parse(fs.readFileSync(0, "utf8"));
console.log(JSON.stringify(values.map((value) => validate(value))));
