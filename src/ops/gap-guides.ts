import type { GapReason } from '../store/store.ts';

export interface GapGuide {
  /** What an operator sees. */
  symptom: string;
  /** What to look at, to know which case it is. */
  check: string;
  /** One that shows more, or mends it; runs where the service runs. */
  command: string;
}

const CLI = 'compliance-mirror';

/** To every reason a gap may have: how it shows, what to look at, and the command for it. */
const GAP_GUIDES: Readonly<Record<GapReason, GapGuide>> = {
  downtime: {
    symptom: 'The service, or its machine, was stopped or cut off, and deliveries may have found nobody.',
    check:
      'Whether the sweeps that began after this instant are complete: the gap closes with the last of them.',
    command: `${CLI} sweeps list`,
  },
  upstream_unavailable: {
    symptom: 'Reads fail one after the other; records stay unverified, and none is deleted meanwhile.',
    check: 'The error beside it: no connection is a matter of the network, 5xx of the compliance service.',
    command: `${CLI} doctor`,
  },
  credentials_rejected: {
    symptom: 'The compliance service answers 401 or 403, so nothing can be verified.',
    check: 'Whether the key was revoked, has run out, or lacks the scope to read this kind.',
    command: `${CLI} doctor`,
  },
  refused_timestamp: {
    symptom: 'Deliveries with a right signature came more than the tolerance too early or too late.',
    check: 'The clocks on both sides, and whether something between holds deliveries back.',
    command: `${CLI} doctor`,
  },
  refused_signatures: {
    symptom: 'Several deliveries in a row carried a signature that no known secret makes.',
    check: 'What the page of refusals says of the newest: a rotated secret, a changed body, or a stranger.',
    command: `${CLI} doctor --delivery refusal:NUMBER`,
  },
  unresolved: {
    symptom: 'An event named this record, and the API answers 404 for it each time.',
    check: 'Whether the credentials may see it, and whether the id in the event is the record’s own.',
    command: `${CLI} refetch KIND ID`,
  },
  unaddressable: {
    symptom: 'The id is one that no request path can carry, such as two dots.',
    check: 'The record in the compliance service itself: what its events said is all that is known here.',
    command: `${CLI} records show KIND ID`,
  },
  dead_letter: {
    symptom: 'An event was given up, after all its attempts or because its data cannot be used.',
    check: 'The error on the event’s page, then its body.',
    command: `${CLI} events list --state dead`,
  },
  unusable_delivery: {
    symptom: 'A delivery with a right signature was no event: not JSON, or without a usable envelope.',
    check: 'Its bytes on the page of the quarantine: a proxy that rewrites, or a change at the sender.',
    command: `${CLI} quarantine list`,
  },
  conflicting_content: {
    symptom: 'A second delivery had the id of an earlier event and said something else.',
    check: 'Both bodies: the first on the event’s page, the second in quarantine.',
    command: `${CLI} quarantine list`,
  },
  total_mismatch: {
    symptom: 'Over a whole list fewer or more records were read than the list’s total says.',
    check: 'Whether it persists over several sweeps: then a filter or a permission hides records.',
    command: `${CLI} sweeps list`,
  },
  silence: {
    symptom: 'No delivery has come for longer than is usual here.',
    check:
      'Whether the webhook is still registered with this address, and whether it can be reached from outside.',
    command: `${CLI} doctor`,
  },
  walk_incomplete: {
    symptom: 'A list could not be read to its end, so that nothing is known of what it did not show.',
    check: 'The error on the sweep’s page: the page that failed, or an answer that made no sense.',
    command: `${CLI} sweeps list`,
  },
  deletions_unproven: {
    symptom: 'Records are missing from the list, and five pairs of walks did not agree on which.',
    check: 'The records named: are they gone from the compliance service?',
    command: `${CLI} sweep --kind KIND`,
  },
  deletion_held: {
    symptom: 'So many records are gone upstream that it may as well be a fault there.',
    check: 'The ids on the sweep’s page, one by one or by sample, in the compliance service itself.',
    command: `${CLI} sweeps confirm-deletions NUMBER`,
  },
};

/** Null: a reason that this version does not know. */
export function gapGuide(reason: string): GapGuide | null {
  return Object.hasOwn(GAP_GUIDES, reason) ? GAP_GUIDES[reason as GapReason] : null;
}
