import { senderOf } from '../platform/addresses.ts';
import type { CountedRejection, Rejection } from '../store/values.ts';

export const MINUTE_MS = 60_000;
/** The first rejections of a place are written at once, so that a person who tries a setting sees each attempt. */
const FIRST = 2;
/** Senders with a place of their own, for each minute and reason. Later ones share one: at most 99 rows in all. */
const MAX_SENDERS = 32;

/** The rejections of one reason and sender in the present minute. */
interface Place {
  seen: number;
  newest: Rejection | null;
}

/**
 * Chooses the rejections that get a row. Anyone can cause rejections and each row costs a write, so only some are kept. But when
 * the real sender's secret is wrong, its rejections must be among them, even if a stranger sends thousands with the same reason.
 * Only the address tells the two apart. So in each minute each reason has a place for each sender (an IPv4 address, or an IPv6
 * network of one subscriber), and a place keeps the first two rejections and the newest.
 *
 * A flood from one address fills only its own place, and a flood of one reason takes nothing from another. After `MAX_SENDERS` in
 * a minute later senders share a place, but a real sender tries again for hours and will come early in some minute. Behind a
 * proxy that is not in TRUSTED_PROXIES all senders have the proxy's address.
 */
export function createRejectionSampler() {
  let minute = Number.NaN;
  let reasons = new Map<string, Map<string, Place>>();

  /** Ends the minute. Returns the newest of each place, which counts for all that were not written. */
  function close(): CountedRejection[] {
    const held = [...reasons.values()].flatMap((places) => [...places.values()]);
    reasons = new Map();
    return held.flatMap(({ seen, newest }) => (newest === null ? [] : { ...newest, times: seen - FIRST }));
  }

  return {
    close,
    /** The rejections to write now, including the rest of a minute that has ended. `steady`: milliseconds. */
    note(rejection: Rejection, steady: number): CountedRejection[] {
      const now = Math.floor(steady / MINUTE_MS);
      const before = now === minute ? [] : close();
      minute = now;
      const places = reasons.get(rejection.reason) ?? new Map<string, Place>();
      reasons.set(rejection.reason, places);
      const network = senderOf(rejection.address);
      const sender = places.has(network) || places.size < MAX_SENDERS ? network : 'others';
      const place = places.get(sender) ?? { seen: 0, newest: null };
      places.set(sender, place);
      place.seen += 1;
      if (place.seen <= FIRST) return [...before, { ...rejection, times: 1 }];
      place.newest = rejection;
      return before;
    },
  };
}
