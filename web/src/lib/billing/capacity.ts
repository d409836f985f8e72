/** What people count a meter in, and how many of its units that is. */
const HOURS: Record<string, [string, number]> = {
  cpu_milli_seconds: ["core-hours", 3_600_000],
  memory_mib_seconds: ["GiB-hours", 3600 * 1024],
  gpu_seconds: ["GPU-hours", 3600],
};

/** The name of a meter's unit for people. */
export function hourUnit(meter: string): string {
  return HOURS[meter]?.[0] ?? meter;
}

/** A quantity of a meter in hours, with two decimal places. */
export function inHours(meter: string, quantity: string): string {
  const [, units] = HOURS[meter] ?? ["", 1];
  return (Number(quantity) / units).toFixed(2);
}
