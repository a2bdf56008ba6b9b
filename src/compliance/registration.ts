import { EVENT_TYPES, type EventType, FAMILIES, type Family } from './kinds.ts';
import type { SealedPlace } from './secrets.ts';

/** What a registration asks for when nobody says otherwise: all twelve types, and what a family gains later. */
export const EVERY_FAMILY: readonly string[] = Object.keys(FAMILIES).map((family) => `${family}.*`);

export interface Coverage {
  covered: EventType[];
  /** Known types that will not be delivered. */
  missing: EventType[];
  /** How much of each family is covered. */
  families: Record<Family, 'all' | 'some' | 'none'>;
  /** Patterns that match no known type: a misspelling, or a type this version does not know. */
  unmatched: string[];
}

/** True when `pattern`, an exact type or `family.*`, selects `type`. No other wildcard exists. */
export function patternSelects(pattern: string, type: string): boolean {
  if (pattern === type) return true;
  return pattern.endsWith('.*') && pattern.length > 2 && type.startsWith(pattern.slice(0, -1));
}

/** Which of the twelve event types a registration's patterns select. */
export function coverageOf(patterns: readonly string[]): Coverage {
  const isCovered = (type: string) => patterns.some((pattern) => patternSelects(pattern, type));
  const shareOf = (family: Family) => {
    const types = EVENT_TYPES.filter((type) => type.startsWith(`${family}.`));
    if (types.every(isCovered)) return 'all';
    return types.some(isCovered) ? 'some' : 'none';
  };
  return {
    covered: EVENT_TYPES.filter(isCovered),
    missing: EVENT_TYPES.filter((type) => !isCovered(type)),
    families: { policy: shareOf('policy'), risk: shareOf('risk'), vendor: shareOf('vendor') },
    unmatched: patterns.filter((pattern) => !EVENT_TYPES.some((type) => patternSelects(pattern, type))),
  };
}

/** Where a registration's signing secret is sealed: one for another registration does not open as this one's. */
export function registrationPlace(upstreamId: string): SealedPlace {
  return { purpose: 'registration', row: upstreamId };
}

/** Where the whole answer to a registration is sealed. */
export function answerPlace(upstreamId: string): SealedPlace {
  return { purpose: 'registration_answer', row: upstreamId };
}

/** Where our receiver takes deliveries. */
export const RECEIVER_PATH = '/webhooks';

/** Not by itself a fault: a proxy may rewrite the path, and then knows better. */
export const isReceiverPath = (url: string): boolean => new URL(url).pathname.endsWith(RECEIVER_PATH);
