// A form from a template's parameters. The schema gives hints while typing; the dry run judges.
export interface ParameterField {
  name: string;
  label: string;
  description: string;
  type: "string" | "integer" | "boolean" | "list" | "map";
  options: string[] | undefined;
  minimum: number | undefined;
  maximum: number | undefined;
  maxLength: number | undefined;
  required: boolean;
  /** Cannot change after the service is made. */
  fixed: boolean;
  /** The default as it is typed. */
  initial: string;
}

interface Declared {
  type: ParameterField["type"];
  description?: string;
  title?: string;
  default?: unknown;
  enum?: string[];
  minimum?: number;
  maximum?: number;
  maxLength?: number;
  mutable?: boolean;
}

/** The fields of a template, the required ones first. */
export function fieldsOf(template: { parameters: object }): ParameterField[] {
  const fields = Object.entries(template.parameters as Record<string, Declared>).map(([name, one]) => ({
    name,
    label: capital(one.title ?? name.replaceAll("_", " ").replace(/^cpu\b/, "CPU")),
    description: one.description ?? "",
    type: one.type,
    options: one.enum,
    minimum: one.minimum,
    maximum: one.maximum,
    maxLength: one.maxLength,
    required: one.default === undefined,
    fixed: one.mutable === false,
    initial: asTyped(one.default, one.type),
  }));
  const rank = (one: ParameterField): number => (one.required ? 0 : 1 + (FIRST.indexOf(one.name) + 1 || 9));
  return fields.sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
}

/** What most people set comes first. */
const FIRST = ["replicas", "port", "schedule", "variables", "args", "min_replicas", "max_replicas", "cpu_percent"];

function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

/** A value as it is typed: a list has a line per entry, a map a line per `NAME=value`. */
export function asTyped(value: unknown, type: ParameterField["type"]): string {
  if (value === undefined || value === null) return "";
  if (type === "list" && Array.isArray(value)) return value.join("\n");
  if (type === "map" && typeof value === "object") {
    return Object.entries(value as Record<string, unknown>).map(([key, one]) => `${key}=${String(one)}`).join("\n");
  }
  return String(value);
}

/** What a field holds: its value, nothing, or the reason why it is wrong. */
export type Typed = { is: "value"; value: unknown } | { is: "absent" } | { is: "wrong"; why: string };

export function parse(field: ParameterField, text: string): Typed {
  if (text.trim() === "" && field.type !== "map" && field.type !== "list") {
    return field.required ? { is: "wrong", why: "required" } : { is: "absent" };
  }
  switch (field.type) {
    case "integer":
      return integer(field, text.trim());
    case "boolean":
      return { is: "value", value: text === "true" };
    case "list":
      return { is: "value", value: text.split("\n").filter((line) => line !== "") };
    case "map":
      return map(text);
    case "string":
      if (field.options && !field.options.includes(text)) return wrong(`one of ${field.options.join(", ")}`);
      if (field.maxLength && text.length > field.maxLength) return wrong(`at most ${field.maxLength} characters`);
      return { is: "value", value: text };
  }
}

function integer(field: ParameterField, text: string): Typed {
  const value = Number(text);
  if (!/^-?\d+$/.test(text) || !Number.isSafeInteger(value)) return wrong("must be an integer");
  if (field.minimum !== undefined && value < field.minimum) return wrong(`at least ${field.minimum}`);
  if (field.maximum !== undefined && value > field.maximum) return wrong(`at most ${field.maximum}`);
  return { is: "value", value };
}

function map(text: string): Typed {
  const value: Record<string, string> = {};
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    const at = line.indexOf("=");
    if (at < 1) return wrong(`"${line}" is not NAME=value`);
    value[line.slice(0, at).trim()] = line.slice(at + 1);
  }
  return { is: "value", value };
}

function wrong(why: string): Typed {
  return { is: "wrong", why };
}

/** The parameters to send: only what differs from the defaults, so that later defaults still apply. */
export function parameters(fields: ParameterField[], typed: Record<string, string>): Record<string, unknown> {
  const sent: Record<string, unknown> = {};
  for (const field of fields) {
    const text = typed[field.name] ?? field.initial;
    if (text === field.initial && !field.required) continue;
    const value = parse(field, text);
    // A wrong value is sent as it was typed: the server's message about it is the better one.
    if (value.is === "value") sent[field.name] = value.value;
    else if (value.is === "wrong" && text !== "") sent[field.name] = text;
  }
  return sent;
}
