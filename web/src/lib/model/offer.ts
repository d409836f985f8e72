// Amounts of what offers include and price, as people say them.

const HOUR = 3600;
const GIB = 1 << 30;

/** Seconds of pods and disks as hours, bytes as GiB. */
export function amountOf(item: string, units: number): string {
  const number = (value: number): string => value.toLocaleString("en", { maximumFractionDigits: 2 });
  if (item.startsWith("pod") || item === "gpu_seconds") return `${number(units / HOUR)} h`;
  if (item.startsWith("disk_gib")) return `${number(units / HOUR)} GiB h`;
  if (item === "egress_bytes") return `${number(units / GIB)} GiB`;
  return number(units);
}
