import type { GapReason } from '../store/store.ts';

export interface GapText {
  /** What is wrong, as a short noun phrase. */
  title: string;
  /** What the service does about it, or what a person must do. */
  remedy: string;
  /** It does not resolve until somebody acts. */
  needsPerson: boolean;
}

/** Every reason a gap may have, in an operator's words. */
export const GAP_TEXTS: Readonly<Record<GapReason, GapText>> = {
  downtime: {
    title: 'The service was down, or could not write',
    remedy: 'Deliveries may have been missed meanwhile. The next complete full sync closes this by itself.',
    needsPerson: false,
  },
  upstream_unavailable: {
    title: 'The compliance service did not answer for a while',
    remedy:
      'Until it does, it is asked again, less often each time: look at its status page and at the network between. Then a complete full sync of each kind closes this by itself.',
    needsPerson: false,
  },
  credentials_rejected: {
    title: 'The compliance service rejects the credentials',
    remedy:
      'Issue new credentials there, allow them to read, and set COMPLIANCE_API_KEY (or the OAuth settings) anew. For a person’s consent: compliance-mirror login.',
    needsPerson: true,
  },
  rejected_timestamp: {
    title: 'Correctly signed deliveries were rejected for their time',
    remedy:
      "Compare this machine's clock with the sender's. What was rejected is fetched by the full sync this asked for.",
    needsPerson: false,
  },
  rejected_signatures: {
    title: 'Deliveries were rejected for their signature',
    remedy:
      'If the sender rotated its secret, add the new one to WEBHOOK_SECRETS. Otherwise somebody is knocking.',
    needsPerson: true,
  },
  no_signing_secret: {
    title: 'Deliveries came whose signing secret was not known yet',
    remedy:
      'They were answered 503, so that the sender tries again. If it goes on: “register --secret-at”, or set WEBHOOK_SECRETS.',
    needsPerson: true,
  },
  unresolved: {
    title: 'The API does not know this record',
    remedy:
      'An event named it, and the API never showed it. Nothing was deleted; it is asked for again in each full sync. See beside it whether ID_POINTERS_* should look elsewhere.',
    needsPerson: false,
  },
  unreadable_answer: {
    title: 'An answer of the API could not be understood',
    remedy:
      'See beside it which request it was and how its answer begins. Check COMPLIANCE_BASE_URL, what stands between, and ID_POINTERS_*. It closes with the first usable answer to that request.',
    needsPerson: true,
  },
  unproven_id: {
    title: 'An event names an assessment that the API has never shown',
    remedy:
      'No other assessment could be read to compare with, so it may be ours to mend: check ID_POINTERS_RISK_ASSESSMENT against the event’s body, and COMPLIANCE_BASE_URL. It is asked for again in each full sync.',
    needsPerson: true,
  },
  unaddressable: {
    title: 'This id cannot be asked for',
    remedy: 'No request path can carry it. What the list shows of it is all there is.',
    needsPerson: false,
  },
  failed_event: {
    title: 'An event could not be processed',
    remedy: 'Its record is fetched through the API instead. Read its error, then retry or discard the event.',
    needsPerson: true,
  },
  no_record_id: {
    title: 'Events do not say which record they are about',
    remedy:
      'What they tell may be missing here. Set ID_POINTERS_* for the kind to where the id stands, start again, and retry the failed events; or discard them. What has a list is made good by its next full sync.',
    needsPerson: true,
  },
  unusable_delivery: {
    title: 'A signed delivery made no event',
    remedy: 'It is kept in quarantine. Read why, and release it or let it be.',
    needsPerson: true,
  },
  conflicting_content: {
    title: 'One event id came with two contents',
    remedy: 'The first is in the mirror, the second in quarantine, and the record is fetched to settle it.',
    needsPerson: false,
  },
  total_mismatch: {
    title: 'A list and its own total disagree',
    remedy: 'The list scan proves no absence until they agree. It is repeated by itself.',
    needsPerson: false,
  },
  silence: {
    title: 'No delivery for a long time',
    remedy:
      'Check that the registration still exists and points here, and that the way in is open. A full sync runs meanwhile.',
    needsPerson: true,
  },
  list_incomplete: {
    title: 'A full sync could not be completed',
    remedy: 'What it read is in the mirror; it proves no absence. It is repeated by itself.',
    needsPerson: false,
  },
  deletions_unproven: {
    title: 'Deletions could not be proven',
    remedy:
      'The list kept changing between two list scans. Run a full sync again at a quieter hour, or fetch the records named.',
    needsPerson: true,
  },
  deletion_pending: {
    title: 'Deletions wait for approval',
    remedy:
      'An unusual share of the records is gone upstream, or the last one of all. Make sure of that there, then approve them here.',
    needsPerson: true,
  },
  restored: {
    title: 'A copy of the database was put back',
    remedy:
      'What was accepted after the copy was made is not in it. Full syncs bring policies and vendors back. Assessments have no list: have the events of that time delivered again, or name the assessments in RISK_IDS_FILE; then resolve the gap.',
    needsPerson: true,
  },
};

export function gapText(reason: string): GapText {
  return Object.hasOwn(GAP_TEXTS, reason)
    ? GAP_TEXTS[reason as GapReason]
    : { title: reason.replaceAll('_', ' '), remedy: 'See the error beside it.', needsPerson: false };
}
