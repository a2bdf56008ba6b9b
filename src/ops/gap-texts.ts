import type { OpenGaps } from '../store/reports.ts';
import type { GapReason } from '../store/store.ts';

export interface GapText {
  /** What is wrong, as a short noun phrase. */
  title: string;
  /** What the service does about it, or what a person must do. */
  remedy: string;
  /** It does not resolve until somebody acts. */
  needsPerson?: true;
}

/** How it shows, and what helps. docs/operations.md repeats it, by a test. */
export interface GapGuide {
  /** What an operator sees. */
  symptom: string;
  /** What to look at, to know which case it is. */
  check: string;
  /** One that shows more, or mends it; runs where the service runs. */
  command: string;
  /** What follows it, or makes it unnecessary. */
  note: string;
}

const CLI = 'compliance-mirror';

/** Every reason a gap may have, in an operator's words. */
export const GAP_TEXTS: Readonly<Record<GapReason, GapText & GapGuide>> = {
  downtime: {
    title: 'The service was down, or could not write',
    remedy: 'Deliveries may have been missed meanwhile. The next complete full sync closes this by itself.',
    symptom:
      'The service, or its machine, was away for more than half a minute, or could not write to its database for so long, and the sender may have given deliveries up.',
    check:
      'Whether the full syncs that began after this instant are complete: the gap closes with the last of them.',
    command: `${CLI} sync-runs list`,
    note: 'Nothing is needed: a full sync follows by itself and resolves it.',
  },
  upstream_unavailable: {
    title: 'The compliance service did not answer for a while',
    remedy:
      'Until it does, it is asked again, less often each time: look at its status page and at the network between. Then a complete full sync of each kind closes this by itself.',
    symptom:
      'Reads have failed one after the other for half a minute and more. Deliveries are still received and shown; records stay unverified, and none is deleted meanwhile.',
    check:
      'The error beside it: no connection is a matter of the network, 5xx of the compliance service, whose own status page says more.',
    command: `${CLI} doctor`,
    note: 'It is asked again with growing pauses; a full sync asks at once. The gap outlives the outage, because deliveries may have been given up: it closes with a complete full sync of each kind.',
  },
  credentials_rejected: {
    title: 'The compliance service rejects the credentials',
    remedy:
      'Issue new credentials there, allow them to read, and set COMPLIANCE_API_KEY (or the OAuth settings) anew. For a person’s consent: compliance-mirror login.',
    needsPerson: true,
    symptom:
      'The compliance service answers 401 or 403. Nothing is verified, and nothing is deleted on that account.',
    check:
      'Whether the key was revoked, has run out, or lacks the scope to read this kind; the audit says since when.',
    command: `${CLI} doctor`,
    note: 'A new key goes into COMPLIANCE_API_KEY, whose file is read again by itself; for OAuth, a person signs in with “login”.',
  },
  rejected_timestamp: {
    title: 'Correctly signed deliveries were rejected for their time',
    remedy:
      "Compare this machine's clock with the sender's. What was rejected is fetched by the full sync this asked for.",
    symptom: 'Deliveries with a right signature came more than the tolerance too early or too late.',
    check:
      'The clocks on both sides (date -u, chronyc tracking), and whether something between holds deliveries back.',
    command: `${CLI} doctor`,
    note: 'A full sync has been asked for by itself.',
  },
  rejected_signatures: {
    title: 'Deliveries were rejected for their signature',
    remedy:
      'If the sender rotated its secret, add the new one to WEBHOOK_SECRETS. Otherwise somebody is knocking.',
    needsPerson: true,
    symptom:
      'Five deliveries and more in a row carried a signature that no known secret makes: the sender rotated its secret, or somebody is knocking.',
    check:
      'What the page of rejected deliveries says of the newest from the sender’s address: a rotated secret, a changed body, or a stranger.',
    command: `${CLI} doctor --delivery rejection:NUMBER`,
    note: 'A new secret goes beside the old one into WEBHOOK_SECRETS, or into its file. The first accepted delivery closes the gap and starts a full sync.',
  },
  no_signing_secret: {
    title: 'Deliveries came whose signing secret was not known yet',
    remedy:
      'They were answered 503, so that the sender tries again. If it goes on: “register --secret-at”, or set WEBHOOK_SECRETS.',
    needsPerson: true,
    symptom:
      'Deliveries came before a signing secret was known that they could be signed with, and were answered 503. A sender tries those again for a while.',
    check: 'Whether it was once, while “register” was at work, or goes on because no secret is known at all.',
    command: `${CLI} doctor`,
    note: 'The first accepted delivery closes the gap and starts a full sync. Where the secret is lacking: “register --secret-at PLACE”, or WEBHOOK_SECRETS.',
  },
  unresolved: {
    title: 'The API does not know this record',
    remedy:
      'An event named it, and the API never showed it. Nothing was deleted; it is asked for again in each full sync. See beside it whether ID_POINTERS_* should look elsewhere.',
    symptom:
      'An event named this record, and the API answers 404 for it each time. Nothing was deleted. Of an assessment, the other ids in the data of such events were asked for, and what the API shows of them is mirrored; the error beside it names them and the setting.',
    check:
      'Whether the credentials may see it, and whether the id in the event is the record’s own, or another thing’s that stands where ID_POINTERS_* look first.',
    command: `${CLI} refetch KIND ID`,
    note: 'If it never was there, the gap may stay: it keeps nothing from being in sync. After a change of ID_POINTERS_*, start again: its events are read anew, and the gap closes.',
  },
  unreadable_answer: {
    title: 'An answer of the API could not be understood',
    remedy:
      'Do what its error says, where it names a setting. Else see there which request it was and how its answer begins, and check COMPLIANCE_BASE_URL, what stands between, and ID_POINTERS_*. It closes with the first usable answer to that request.',
    needsPerson: true,
    symptom:
      'The API answered a request with what nobody can make a record or a list of: a web page, nothing, an unexpected status, several records or another one for one, rows without a usable id. What it should have shown is not known, so its kind is not in sync.',
    check:
      'The error beside it: the request, and how its answer begins. A web page comes from a proxy or from a wrong COMPLIANCE_BASE_URL; rows without an id want ID_POINTERS_*; a single row whose id cannot be used is named, and has to be mended there.',
    command: `${CLI} doctor`,
    note: 'It closes by itself with the first usable answer to that very request: of a record from its own address, which each full sync asks again, whatever a list shows of it; of a list with the next complete reading.',
  },
  unproven_id: {
    title: 'An event names an assessment that the API has never shown',
    remedy:
      'No other assessment could be read to compare with, so it may be ours to mend: check ID_POINTERS_RISK_ASSESSMENT against the event’s body, and COMPLIANCE_BASE_URL. It is asked for again in each full sync.',
    needsPerson: true,
    symptom:
      'An event named this assessment, the API answers 404 for it, and it has shown no other assessment that could be read to compare with.',
    check:
      'The body of the event: whether the id is the assessment’s own, or another that stands where ID_POINTERS_RISK_ASSESSMENT looks first.',
    command: `${CLI} events list --record ID`,
    note: 'After a change of that setting, or of COMPLIANCE_BASE_URL, start again. If it is gone, the gap closes once any other assessment has been read: one can be named in RISK_IDS_FILE.',
  },
  unaddressable: {
    title: 'This id cannot be asked for',
    remedy: 'No request path can carry it. What the list shows of it is all there is.',
    symptom: 'The id is one that no request path can carry, such as two dots.',
    check: 'The record in the compliance service itself: what its list shows is all that is known here.',
    command: `${CLI} records show KIND ID`,
    note: 'Only another id, given there, mends it.',
  },
  failed_event: {
    title: 'An event could not be processed',
    remedy: 'Its record is fetched through the API instead. Read its error, then retry or discard the event.',
    needsPerson: true,
    symptom:
      'An event was given up, after RETRY_MAX_ATTEMPTS attempts or because its data cannot be used. Its record is read from the API instead.',
    check: 'The error on the event’s page, then its body.',
    command: `${CLI} events list --state failed`,
    note: 'Then “events retry ID”, after an update that can read it, or “events discard ID”.',
  },
  no_record_id: {
    title: 'Events do not say which record they are about',
    remedy:
      'What they tell may be missing here. Set ID_POINTERS_* for the kind to where the id stands, start again, and retry the failed events; or discard them. What has a list is made good by its next full sync. Where the error names the quarantine, no setting helps: look at the delivery there and release it.',
    needsPerson: true,
    symptom:
      'Events were accepted, and none of the pointers finds a record’s id in their data, so what they tell may be missing here. Values that look like an id are asked for at the API, and the error beside it says what came of that.',
    check: 'The body of one of these events: where in its data the id stands.',
    command: `${CLI} events retry --failed-for no_record_id`,
    note: 'Before it, set ID_POINTERS_POLICY, ID_POINTERS_RISK_ASSESSMENT or ID_POINTERS_VENDOR to that place and start the service again. “events discard ID” settles one that means nothing. Policies and vendors are made good by the next full sync; risk assessments have no list, and stay out of sync until then. Where the error names the quarantine, nothing can be read anew: “quarantine list”, then “quarantine release NUMBER”.',
  },
  unusable_delivery: {
    title: 'A signed delivery made no event',
    remedy: 'It is kept in quarantine. Read why, and release it or let it be.',
    needsPerson: true,
    symptom: 'A delivery with a right signature was no event: not JSON, or without a usable envelope.',
    check: 'Its bytes on the page of the quarantine: a proxy that rewrites, or a change at the sender.',
    command: `${CLI} quarantine list`,
    note: 'Then “quarantine release NUMBER”, which has what it was about read from the API.',
  },
  conflicting_content: {
    title: 'One event id came with two contents',
    remedy: 'The first is in the mirror, the second in quarantine, and the record is fetched to settle it.',
    symptom:
      'A second delivery had the id of an earlier event and said something else. The first counts, the second is in quarantine.',
    check: 'Both bodies: the first on the event’s page, the second in quarantine.',
    command: `${CLI} quarantine list`,
    note: 'The record is read again by itself; tell the sender that its ids are not unique.',
  },
  total_mismatch: {
    title: 'A list and its own total disagree',
    remedy:
      'The list scan proves no absence until they agree. It is repeated by itself; if they never do, a filter or a permission hides records from our credentials.',
    symptom:
      'Over a whole list fewer or more records were read than the list’s own total says, so that the list scan proves no absence.',
    check: 'Whether it persists over several full syncs: then a filter or a permission hides records.',
    command: `${CLI} sync --kind KIND --wait`,
    note: 'It is also repeated by itself.',
  },
  silence: {
    title: 'No delivery for a long time',
    remedy:
      'Check that the registration still exists and points here, and that the way in is open. A full sync runs meanwhile.',
    needsPerson: true,
    symptom: 'No delivery has come for SYNC_SILENCE_HOURS, or for far longer than is usual here.',
    check:
      'Whether the webhook is still registered with this address, and whether a POST from outside is answered 401.',
    command: `${CLI} doctor`,
    note: 'If the registration is gone, “register --again” makes it anew; “sync” finds what was not delivered meanwhile.',
  },
  list_incomplete: {
    title: 'A full sync could not be completed',
    remedy: 'What it read is in the mirror; it proves no absence. It is repeated by itself.',
    symptom: 'A list could not be read to its end, so that nothing is known of what it did not show.',
    check:
      'The error on the full sync’s page: the page that failed or came twice, or an answer that made no sense.',
    command: `${CLI} sync --kind KIND --wait`,
    note: 'It is also repeated by itself.',
  },
  deletions_unproven: {
    title: 'Deletions could not be proven',
    remedy:
      'The list kept changing between two list scans. Run a full sync again at a quieter hour, or fetch the records named.',
    needsPerson: true,
    symptom:
      'Records are missing from the list, and five pairs of list scans in a row did not agree on which, so none of them is deleted here.',
    check: 'The records named: are they gone from the compliance service?',
    command: `${CLI} sync --kind KIND --wait`,
    note: 'Best at a quieter hour.',
  },
  deletion_pending: {
    title: 'Deletions wait for approval',
    remedy:
      'An unusual share of the records is gone upstream, or the last one of all. Make sure of that there, then approve them here.',
    needsPerson: true,
    symptom:
      'More than a fifth of a kind’s records are gone upstream at once, or the last one of all: it may as well be a fault there.',
    check: 'The ids on the full sync’s page, one by one or by sample, in the compliance service itself.',
    command: `${CLI} deletions approve NUMBER`,
    note: 'It shows the ids and asks; in a script, --yes DIGEST with the digest that it prints. Good for exactly these ids and for one hour; rejected when others wait by then. A full sync looks again after 1, 2, 4 … minutes: records that are back wait no more.',
  },
  restored: {
    title: 'A copy of the database was put back',
    remedy:
      'What was accepted after the copy was made is not in it. Full syncs bring policies and vendors back. Assessments have no list: have the events of that time delivered again, or name the assessments in RISK_IDS_FILE; then resolve the gap.',
    needsPerson: true,
    symptom:
      'A backup or a dump was put back, or another server of the database took over. What was accepted after the copy was made is not in it, and assessments that only those events named are unknown. Risk assessments are not in sync until a person has resolved their gap.',
    check:
      'The error beside it: from when to when events are missing. In the compliance service, which of that time were about risk assessments.',
    command: `${CLI} gaps resolve NUMBER`,
    note: 'Before it, have the service deliver those events again, or name the assessments in RISK_IDS_FILE and start a full sync: nothing here can tell whether one is still missing. The gaps of policies and vendors end with their next full sync.',
  },
};

/** Of a reason that this version does not know there is no guide. */
export function gapText(reason: string): GapText & Partial<GapGuide> {
  return Object.hasOwn(GAP_TEXTS, reason)
    ? GAP_TEXTS[reason as GapReason]
    : { title: reason.replaceAll('_', ' '), remedy: 'See the error beside it.' };
}

/** When the first of them was opened; null: there is none. ISO 8601. */
export function oldestOf(gaps: readonly OpenGaps[]): string | null {
  return gaps.map((gap) => gap.oldest_at).sort()[0] ?? null;
}

/** About records that the API does not show, so that no read can verify them. Such a gap leaves its kind in sync. */
export function isUnreadable({ reason }: Pick<OpenGaps, 'reason'>): boolean {
  return reason === 'unresolved' || reason === 'unaddressable';
}

/** Only a person can know that nothing is missing any more. A kind with a list is read again in full instead, where there is an API. */
export function isEndedByPerson(
  { reason, kind }: Pick<OpenGaps, 'reason' | 'kind'>,
  eventsOnly: boolean,
): boolean {
  return reason === 'restored' && (eventsOnly || kind === 'risk_assessment');
}
