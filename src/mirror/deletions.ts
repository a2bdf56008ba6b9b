/** A deletion without a delete event waits for a person when more than this many records of a kind go at once … */
const ASK_ABOVE_COUNT = 2;
/** … and they are more than this share of the live ones. A service that forgot its data looks like this. */
const ASK_ABOVE_SHARE = 0.2;

/**
 * Which of the proven absences become tombstones. `candidates` without a delivered delete event and without an
 * operator's approval go only if there are few of them; otherwise all of those wait together. `pendingAlready` counts
 * those that wait from before: a list that loses its records a few at a time must not slip through.
 */
export function decideDeletions(
  candidates: readonly { id: string; announced: boolean; approved: boolean }[],
  live: number,
  pendingAlready = 0,
): { deleted: string[]; pending: string[] } {
  const doubtful = candidates.filter((candidate) => !candidate.announced && !candidate.approved);
  const count = doubtful.length + pendingAlready;
  const many = count > ASK_ABOVE_COUNT && count > ASK_ABOVE_SHARE * live;
  // Even of one alone: an empty list is what a service looks like that has lost its data, or shows none to us.
  const all = count >= live && (live > 0 || count >= 2);
  const pending = new Set(many || all ? doubtful.map((candidate) => candidate.id) : []);
  return {
    deleted: candidates.filter((candidate) => !pending.has(candidate.id)).map((candidate) => candidate.id),
    pending: [...pending].sort(),
  };
}
