// Text that came from elsewhere: values of fields, long ids, characters that mislead.

/** A value of a field in one line; absent is said, not left blank. */
export function valueText(value: unknown): string {
  if (value === undefined || value === null) return "(none)";
  return clean(typeof value === "string" ? value : JSON.stringify(value));
}

/** Replaces control characters and marks of writing direction, which can make a name look like another. */
export function clean(text: string): string {
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, " ");
}

/** An object without its namespace, which follows from the project: `Deployment/web-1`. */
export function shortObject(object: string): string {
  const parts = clean(object).split("/");
  return parts.length === 3 ? `${parts[0] ?? ""}/${parts[2] ?? ""}` : clean(object);
}

/** An id cut in the middle, so that its kind and its end stay readable: `svc_01m7…arsd2j`. */
export function middle(id: string, head = 8, tail = 6): string {
  return id.length <= head + tail + 1 ? id : `${id.slice(0, head)}…${id.slice(-tail)}`;
}

/** `config_map` and `ConfigMap` as words: `config map`. */
export function words(name: string): string {
  return name.replaceAll("_", " ");
}

/** Mebibytes in the unit that reads best. */
export function memory(mib: number): string {
  return mib >= 1024 ? `${(mib / 1024).toLocaleString("en", { maximumFractionDigits: 2 })} GiB` : `${mib} MiB`;
}

/** Thousandths of a core as cores: `1.5`. */
export function cores(millis: number): string {
  return (millis / 1000).toLocaleString("en", { maximumFractionDigits: 3 });
}
