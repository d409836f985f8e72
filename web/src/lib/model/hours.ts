// Active hours as people type and read them: a window per line, `mon-fri 15:00-23:00`. The server judges the times.
import type { Schemas } from "../api/types";

export type ActiveHours = Schemas["ActiveHours"];
type Window = Schemas["ActiveWindow"];
type Day = Schemas["ActiveDay"];

const DAYS: Day[] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/** The windows of a text, a line each; or what is wrong with the first bad one. */
export function windows(text: string): { windows: Window[] } | { wrong: string } {
  const found: Window[] = [];
  for (const line of text.split("\n").map((one) => one.trim().toLowerCase())) {
    if (line === "") continue;
    const parts = /^(?:(.*?)\s+)?(\S+:\S+)-(\S+:\S+)$/.exec(line);
    if (!parts) return { wrong: `“${line}” is no window; write 15:00-23:00 or mon-fri 15:00-23:00` };
    const days = (parts[1] ?? "").split(/[\s,]+/).filter((word) => word !== "").map(range);
    if (days.some((one) => one === undefined)) return { wrong: `“${parts[1] ?? ""}” names no days; they are ${DAYS.join(", ")}` };
    const named = days.flatMap((one) => one ?? []);
    found.push({ ...(named.length ? { days: named } : {}), from: parts[2] ?? "", to: parts[3] ?? "" });
  }
  return { windows: found };
}

function range(text: string): Day[] | undefined {
  const [first, last = first] = text.split("-").map((word) => DAYS.findIndex((day) => day === word.slice(0, 3)));
  if (first === undefined || last === undefined || first < 0 || last < 0) return undefined;
  const length = ((last - first + 7) % 7) + 1;
  return Array.from({ length }, (_, at) => DAYS[(first + at) % 7] as Day);
}

/** The windows as they are typed. */
export function lines(hours: ActiveHours | null | undefined): string {
  return (hours?.windows ?? []).map(line).join("\n");
}

/** All of it in one line. */
export function sentence(hours: ActiveHours): string {
  return `${hours.windows.map(line).join("; ")}, ${hours.zone}`;
}

function line({ days, from, to }: Window): string {
  const times = `${from}-${to}`;
  if (!days?.length) return times;
  const runs: Day[][] = [];
  for (const [at, day] of DAYS.entries()) {
    if (!days.includes(day)) continue;
    const run = runs.at(-1);
    if (run && at > 0 && run.at(-1) === DAYS[at - 1]) run.push(day);
    else runs.push([day]);
  }
  const words = runs.map((run) => (run.length > 2 ? `${run[0] ?? ""}-${run.at(-1) ?? ""}` : run.join(",")));
  return `${words.join(",")} ${times}`;
}

/** Active hours from what was typed; undefined without a window. */
export function hoursOf(text: string, zone: string): { hours?: ActiveHours; wrong?: string } {
  const read = windows(text);
  if ("wrong" in read) return { wrong: read.wrong };
  return read.windows.length ? { hours: { zone: zone.trim(), windows: read.windows } } : {};
}
