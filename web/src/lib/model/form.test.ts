import { expect, test } from "vitest";

import { asTyped, fieldsOf, parameters, parse, type ParameterField } from "./form";

const template = {
  parameters: {
    replicas: { type: "integer", default: 1, minimum: 0, maximum: 20, mutable: true, description: "How many pods." },
    image: { type: "string", maxLength: 255, mutable: true, description: "The image." },
    server: { type: "string", default: "VANILLA", enum: ["VANILLA", "PAPER"], mutable: false },
    variables: { type: "map", default: {}, mutable: true },
    args: { type: "list", default: [], mutable: true },
  },
};
const fields = fieldsOf(template);
const field = (name: string): ParameterField => fields.find((one) => one.name === name)!;

test("required fields come first, and fixed ones are known", () => {
  expect(fields.map((one) => one.name)).toEqual(["image", "replicas", "variables", "args", "server"]);
  expect(field("server").fixed).toBe(true);
});

test("a wrong value says what is right", () => {
  expect(parse(field("image"), " ")).toEqual({ is: "wrong", why: "required" });
  expect(parse(field("replicas"), "21")).toEqual({ is: "wrong", why: "at most 20" });
  expect(parse(field("replicas"), "1.5")).toEqual({ is: "wrong", why: "must be an integer" });
  expect(parse(field("server"), "BUKKIT")).toEqual({ is: "wrong", why: "one of VANILLA, PAPER" });
  expect(parse(field("variables"), "A=1\nB")).toEqual({ is: "wrong", why: '"B" is not NAME=value' });
});

test("values of maps and lists have a line each and may hold an equals sign", () => {
  expect(parse(field("variables"), "A=1=2\n\nB=")).toEqual({ is: "value", value: { A: "1=2", B: "" } });
  expect(asTyped({ A: "1=2", B: "" }, "map")).toBe("A=1=2\nB=");
  expect(asTyped(["a", "b"], "list")).toBe("a\nb");
});

test("only what differs from the defaults is sent, and a wrong value as it was typed", () => {
  expect(parameters(fields, { image: "web:1", replicas: "1", variables: "A=1" })).toEqual({
    image: "web:1",
    variables: { A: "1" },
  });
  expect(parameters(fields, { image: "web:1", replicas: "many" })).toEqual({ image: "web:1", replicas: "many" });
});
