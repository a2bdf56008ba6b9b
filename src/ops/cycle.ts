/** How long it takes to read every known risk assessment once: so old may be what no event has announced. */
export interface Cycle {
  /** Of the last one that was completed; null: none was. */
  last_seconds: number | null;
  /** Null: none is under way. */
  running: { elapsed_seconds: number; estimated_seconds: number | null } | null;
}

/** Instants in milliseconds of one clock. The estimate goes by what has been read so far. Pure. */
export function cycleOf(
  lastSeconds: number | null,
  running: { startedAt: number; seen: number; total: number | null } | null,
  now: number,
): Cycle {
  if (running === null) return { last_seconds: lastSeconds, running: null };
  const { startedAt, seen, total } = running;
  const elapsed = Math.max(0, now - startedAt) / 1000;
  const estimated = seen === 0 || total === null ? null : elapsed * Math.max(1, total / seen);
  return {
    last_seconds: lastSeconds,
    running: {
      elapsed_seconds: tenth(elapsed),
      estimated_seconds: estimated === null ? null : tenth(estimated),
    },
  };
}

/** As a person reads it: `the last took 12 s`, `4 min`, `3 h 20 min`. */
export function cycleWords({ last_seconds, running }: Cycle): string {
  const last = last_seconds === null ? 'none completed yet' : `the last took ${span(last_seconds)}`;
  if (running === null) return last;
  const { elapsed_seconds: elapsed, estimated_seconds: estimated } = running;
  const whole = estimated === null ? 'its length not known yet' : `about ${span(estimated)} in all`;
  return `${last}; one under way for ${span(elapsed)}, ${whole}`;
}

function span(seconds: number): string {
  if (seconds < 1) return 'under 1 s';
  if (seconds < 120) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

const tenth = (value: number) => Math.round(value * 10) / 10;
