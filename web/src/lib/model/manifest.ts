// A manifest as the command line reads it, so that what is made here can be kept in a repository.

export interface Manifest {
  kind: "Service";
  name: string;
  project: string;
  template: string;
  plan?: string;
  parameters?: Record<string, unknown>;
  drift?: unknown;
  active?: unknown;
}

/** The manifest as YAML. Strings are quoted where another reader could take them for something else. */
export function yaml(value: unknown, indent = ""): string {
  if (Array.isArray(value)) {
    if (value.length === 0) return "[]";
    return value.map((one) => `\n${indent}- ${yaml(one, `${indent}  `).trimStart()}`).join("");
  }
  if (typeof value === "object" && value !== null) {
    const entries = Object.entries(value).filter(([, one]) => one !== undefined);
    if (entries.length === 0) return "{}";
    return entries
      .map(([key, one]) => {
        const text = yaml(one, `${indent}  `);
        return `\n${indent}${scalar(key)}:${text.startsWith("\n") ? "" : " "}${text}`;
      })
      .join("");
  }
  return typeof value === "string" ? scalar(value) : JSON.stringify(value ?? null);
}

/** The text of a document. */
export function document(manifest: Manifest): string {
  return yaml(manifest).trimStart() + "\n";
}

const PLAIN = /^[A-Za-z][A-Za-z0-9_./@-]*(:[A-Za-z0-9_.-]+)?$/;
const WORDS = new Set(["true", "false", "null", "yes", "no", "on", "off", "y", "n"]);

function scalar(text: string): string {
  return PLAIN.test(text) && !WORDS.has(text.toLowerCase()) ? text : JSON.stringify(text);
}
