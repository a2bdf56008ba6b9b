import { networkOf } from '../platform/addresses.ts';
import type { CountedRejection, Rejection } from '../store/values.ts';

export const MINUTE_MS = 60_000;
/** The first of one reason, sender and minute are written as they come: a person who tries a setting sees each attempt. */
const FIRST = 2;
/** Senders counted apart in a minute, for each reason; later ones share one place. At most 99 rows per minute and reason. */
const MAX_SENDERS = 32;

/** The rejections of one (reason, sender) in the minute under way. */
interface Place {
  seen: number;
  newest: Rejection | null;
}

/**
 * Which rejections get a row. Anyone can cause one, and each costs a write, so only some are kept. The real sender's must not be
 * lost when its secret is wrong and a stranger sends thousands with the same reason. While no secret fits, their bytes look
 * the same, but a stranger cannot choose his address freely. So each minute has, for each reason, a place for each sender (an
 * IPv4 address, or an IPv6 network of the size that one subscriber gets). A place keeps the first two and the newest.
 *
 * A flood from one address fills only its own place, and a flood of one reason takes nothing from another. After `MAX_SENDERS`
 * in a minute, later senders share a place; a real sender that tries again for hours will come early in some minute. Behind a
 * proxy that is not in TRUSTED_PROXIES all senders have the proxy's address.
 */
export function createRejectionSampler() {
  let minute = Number.NaN;
  let reasons = new Map<string, Map<string, Place>>();

  /** Ends the minute: the newest of each place, counting for all that were not written. */
  function close(): CountedRejection[] {
    const held = [...reasons.values()].flatMap((places) => [...places.values()]);
    reasons = new Map();
    return held.flatMap(({ seen, newest }) => (newest === null ? [] : { ...newest, times: seen - FIRST }));
  }

  return {
    close,
    /** What to write now: this one, nothing, or what was left of a minute that has ended. `steady`: milliseconds. */
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

/** A sender is known by its network; empty: its address is unknown. */
export function senderOf(address: string | null): string {
  return address === null ? '' : networkOf(address);
}
