// The class of each colour role. Tailwind finds classes as whole words only.
import type { Role } from "../model/status";

export const TEXT: Record<Role | "strong", string> = {
  good: "text-good",
  moving: "text-moving",
  warn: "text-warn",
  bad: "text-bad",
  unknown: "text-unknown",
  neutral: "text-muted",
  strong: "text-ink",
};

export const SOFT: Record<Role, string> = {
  good: "bg-good/10 text-good",
  moving: "bg-moving/10 text-moving",
  warn: "bg-warn/10 text-warn",
  bad: "bg-bad/10 text-bad",
  unknown: "bg-unknown/10 text-unknown",
  neutral: "bg-hover text-muted",
};
