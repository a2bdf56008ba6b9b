import type { OpenGaps } from '../store/reports.ts';
import type { GapReason } from '../store/store.ts';

interface GapText {
  /** What is wrong, as a short noun phrase. */
  title: string;
  /** What the service does about it, or what a person must do. */
  remedy: string;
  /** It does not resolve until somebody acts. */
  needsPerson?: true;
}

/** How to recognise the gap, and what helps. docs/operations.md has the same texts; a test compares them. */
export interface GapGuide {
  symptom: string;
  /** What to look at, to know which case it is. */
  check: string;
  /** Shows more, or repairs it. To be run on the service's machine. */
  command: string;
  /** What to do or to expect after the command. */
  note: string;
}

const CLI = 'compliance-mirror';

/** Every reason a gap may have, in an operator's words. */
export const GAP_TEXTS: Readonly<Record<GapReason, GapText & GapGuide>> = {
  downtime: {
    title: 'The service was down, or could not write',
    remedy:
      'Deliveries may have been missed in that time. The next complete full sync resolves this automatically.',
    symptom:
      'For more than half a minute the service was down, or could not write to its database, or its clock was set back by as much. Or, in less time, it could not keep deliveries about more than 100 records, or one that does not say its record. The sender may have given up on deliveries.',
    check: 'Are the full syncs that began after this time complete? The last of them resolves the gap.',
    command: `${CLI} sync-runs list`,
    note: 'Nothing to do: a full sync follows automatically.',
  },
  upstream_unavailable: {
    title: 'The compliance service did not answer for a while',
    remedy:
      'Check its status page and the network in between. It is asked again automatically, with growing pauses. When it answers, a complete full sync of each kind resolves this.',
    symptom:
      'All reads have failed for half a minute or more. Deliveries are still received and shown; records stay unverified, and none is deleted.',
    check:
      'The error: no connection means the network; 5xx means the compliance service, see its status page.',
    command: `${CLI} doctor`,
    note: 'It is asked again with growing pauses; “sync” asks at once. The gap stays open after the outage, because the sender may have given up on deliveries: a complete full sync of each kind resolves it.',
  },
  credentials_rejected: {
    title: 'The compliance service rejects the credentials',
    remedy:
      'Make new credentials in the compliance service, allow them to read, set COMPLIANCE_API_KEY (or the OAuth settings), and restart; a file that holds one is read again automatically. For a person’s consent: compliance-mirror login.',
    needsPerson: true,
    symptom:
      'The compliance service answers 401 or 403, or no stored token can be used to ask it. Nothing is verified, and nothing is deleted.',
    check:
      'Was the key revoked, has it expired, or may it not read this kind? Does CREDENTIALS_KEY open the tokens? The audit says since when.',
    command: `${CLI} doctor`,
    note: 'Put a new key into COMPLIANCE_API_KEY and restart, or into its file, which is read again automatically. With OAuth, a person signs in with “login”. A service that answers 403 for ids that it does not have looks the same while no risk assessment is known: name one in RISK_IDS_FILE, or by “refetch”.',
  },
  rejected_timestamp: {
    title: 'Correctly signed deliveries were rejected for their time',
    remedy:
      'Compare this machine’s clock (date -u) with the sender’s, and correct the one that is wrong: the next delivery is then accepted. A full sync reads what was rejected.',
    symptom:
      'The timestamps of correctly signed deliveries are too far from our clock (WEBHOOK_TOLERANCE_SECONDS).',
    check:
      'The clocks on both sides (date -u, chronyc tracking). Does something in between delay deliveries?',
    command: `${CLI} doctor`,
    note: 'A full sync follows automatically.',
  },
  rejected_signatures: {
    title: 'Deliveries were rejected for their signature',
    remedy:
      'If the sender changed its secret, add the new one to WEBHOOK_SECRETS and restart; its file is read again automatically. Otherwise a stranger is sending them, and the sender’s next delivery ends this.',
    needsPerson: true,
    symptom:
      'Five or more deliveries in a row had a signature that fits no known secret: the sender changed its secret, or a stranger is sending them.',
    check:
      'The newest rejection from the sender’s address, on the page Rejections: a new secret, a changed body, or a stranger?',
    command: `${CLI} doctor --delivery rejection:NUMBER`,
    note: 'Add a new secret to WEBHOOK_SECRETS beside the old one and restart, or to its file, which is read again automatically. The first accepted delivery starts a full sync and resolves the gap: at most once in 10 minutes, or in SYNC_FULL_MINUTES if that is longer, since strangers can cause it. Until then it resolves the gap alone, if none of the rejected came from where deliveries were accepted.',
  },
  no_signing_secret: {
    title: 'Deliveries came before a signing secret was known',
    remedy:
      'They were answered 503, so the sender tries again. If it goes on: “register --secret-at”, or set WEBHOOK_SECRETS and restart.',
    needsPerson: true,
    symptom:
      'Deliveries came while no signing secret was known for them, and were answered 503. A sender tries again for some time.',
    check: 'Did it happen once, during “register”, or does it go on because no secret is known?',
    command: `${CLI} doctor`,
    note: 'The first accepted delivery resolves the gap and starts a full sync. If the secret is missing: “register --secret-at PLACE”, or WEBHOOK_SECRETS and a restart.',
  },
  unresolved: {
    title: 'The API does not know this record',
    remedy:
      'An event or a person named it, and the API has never shown it. Nothing was deleted; each full sync asks for it again. Its error says whether ID_POINTERS_* should be changed. If there is no such record, resolve the gap.',
    symptom:
      'An event, RISK_IDS_FILE or “refetch” named this record, and the API answers 404 for it each time. Nothing was deleted. For an assessment, the other ids in the data of such events were asked for, and the records found are mirrored; the error names them and the setting.',
    check:
      'May the credentials see it? Is the id in the event the record’s own, or the id of something else in a place where ID_POINTERS_* look first?',
    command: `${CLI} refetch KIND ID`,
    note: 'If there is no such record, “gaps resolve NUMBER”: only another event that names the id opens it again. Meanwhile the kind can be in sync all the same. After a change of ID_POINTERS_*, restart: its events are read again, and the gap is resolved.',
  },
  unreadable_answer: {
    title: 'An answer of the API could not be understood',
    remedy:
      'If the error of the gap names a setting, change that and restart. Otherwise the error has the request and the beginning of its answer: check COMPLIANCE_BASE_URL, any proxy in between, and ID_POINTERS_*. The first usable answer to that request resolves it.',
    needsPerson: true,
    symptom:
      'The API’s answer was no record and no list: a web page, an empty body, an unexpected status, several records or another one instead of one, rows without a usable id, a 403 for one record while others can be read. What it should have shown is not known, so its kind is not in sync.',
    check:
      'The error: the request, and how its answer begins. A web page comes from a proxy or from a wrong COMPLIANCE_BASE_URL. For rows without an id set ID_POINTERS_*. A single row whose id cannot be used is named, and must be corrected in the compliance service. For a 403, allow the credentials to read that record.',
    command: `${CLI} doctor`,
    note: 'The first usable answer to the same request resolves it: for a record, one from its own address, which each full sync asks again; for a list, the next complete full sync.',
  },
  unproven_id: {
    title: 'An event names an assessment that the API has never shown',
    remedy:
      'No other assessment could be read to compare with, so a setting may be wrong: compare ID_POINTERS_RISK_ASSESSMENT with the event’s body, and check COMPLIANCE_BASE_URL. Each full sync asks for it again.',
    needsPerson: true,
    symptom:
      'An event named this assessment, and the API answers 404 for it. No other assessment could be read to compare with.',
    check:
      'The body of the event: is the id the assessment’s own, or another one in a place where ID_POINTERS_RISK_ASSESSMENT looks first?',
    command: `${CLI} events list --record ID`,
    note: 'After a change of that setting, or of COMPLIANCE_BASE_URL, restart. If the assessment was deleted, the gap is resolved when any other assessment has been read: you can name one in RISK_IDS_FILE and start a full sync. If there is no other, “gaps resolve NUMBER”.',
  },
  unaddressable: {
    title: 'This id cannot be asked for',
    remedy:
      'No request path can contain it. Only what the list shows of it is known; once it shows it no more, a person decides whether it is gone.',
    symptom: 'No request path can contain the id, such as two dots.',
    check:
      'The record in the compliance service itself: the mirror knows only what the list shows. One that is gone from it is deleted here once you approve that.',
    command: `${CLI} records show KIND ID`,
    note: 'If it shows none, only an event has named the id: “events list --record ID”. “gaps resolve NUMBER” ends the gap until an event names the id again, and the kind can be in sync without it. A record that gets another id in the compliance service is mirrored under that one.',
  },
  failed_event: {
    title: 'An event could not be processed',
    remedy: 'Its record is read from the API instead. Read its error, then retry or discard the event.',
    needsPerson: true,
    symptom:
      'An event failed RETRY_MAX_ATTEMPTS times, or its data cannot be used. Its record is read from the API instead.',
    check: 'The error on the event’s page, then its body.',
    command: `${CLI} events list --state failed`,
    note: 'Then “events retry ID”, for example after an update, or “events discard ID”.',
  },
  no_record_id: {
    title: 'Events do not say which record they are about',
    remedy:
      'Their changes may be missing here. Set ID_POINTERS_* for the kind to the place of the id, restart, and retry the failed events; or discard them. The next full sync repairs policies and vendors. If the error names the quarantine, no setting helps: look at the delivery there and release it.',
    needsPerson: true,
    symptom:
      'Accepted events have no record’s id at any place where ID_POINTERS_* look, so their changes may be missing here. The API is asked for values that look like an id; the error has the result.',
    check: 'The body of one of these events: where in its data is the id?',
    command: `${CLI} events retry --failed-for no_record_id`,
    note: 'Before it, set ID_POINTERS_POLICY, ID_POINTERS_RISK_ASSESSMENT or ID_POINTERS_VENDOR to that place and restart. “events discard ID” is for an event without meaning. The next full sync repairs policies and vendors; risk assessments have no list, and stay out of sync until each such event is retried or discarded. If the error names the quarantine, nothing can be retried: “quarantine list”, then “quarantine release NUMBER”.',
  },
  trimmed_event: {
    title: 'Events were trimmed before their risk assessments were found',
    remedy:
      'They named ids that the API does not know, and what else was in them is gone (RETENTION_BODY_DAYS). Name the assessments that they may have been about in RISK_IDS_FILE and start a full sync. Then resolve the gap.',
    needsPerson: true,
    symptom:
      'The API answers 404 for an id that an event named, and the event’s body was trimmed before the other ids in it were asked for: for as long as RETENTION_BODY_DAYS the API could not be read or no credentials for it were set, or there were more such events than the request budget allowed to search.',
    check:
      'The gaps “unresolved” name the ids: are these the ids of something else, in a place where ID_POINTERS_RISK_ASSESSMENT looks first?',
    command: `${CLI} gaps resolve NUMBER`,
    note: 'Before it, name the assessments that changed at that time in RISK_IDS_FILE and start a full sync: the mirror cannot know whether one is missing. If an id is another thing’s, correct the setting and restart.',
  },
  unusable_delivery: {
    title: 'A signed delivery is not a usable event',
    remedy: 'It is in quarantine. Read why, and release it.',
    needsPerson: true,
    symptom:
      'A correctly signed delivery is not a usable event: not JSON, or a required field is missing or wrong.',
    check: 'Its bytes, on the page Quarantine: did a proxy change them, or did the sender?',
    command: `${CLI} quarantine list`,
    note: 'Then “quarantine release NUMBER”: the record that it is about is read from the API.',
  },
  conflicting_content: {
    title: 'One event id came with two contents',
    remedy:
      'The first is in the mirror, the second in quarantine. The record is read again from the API, which decides.',
    symptom:
      'A second delivery had the id of an earlier event and other content. The first counts, the second is in quarantine.',
    check: 'Both bodies: the first on the event’s page, the second in quarantine.',
    command: `${CLI} quarantine list`,
    note: 'The record is read again automatically; if the API does not show it, “quarantine release NUMBER” resolves the gap. Tell the sender that its ids are not unique.',
  },
  total_mismatch: {
    title: 'A list and its own total disagree',
    remedy:
      'Until they agree, no record counts as deleted. The full sync is repeated automatically. If they never agree, a filter or a permission hides records from our credentials.',
    symptom:
      'A list has more or fewer records than its own total says, so no record that is missing from it counts as deleted.',
    check: 'Does it stay over several full syncs? Then a filter or a permission hides records.',
    command: `${CLI} sync --kind KIND --wait`,
    note: 'The full sync is also repeated automatically.',
  },
  silence: {
    title: 'No delivery for a long time',
    remedy:
      'Check that the registration still exists and has our address, and that the receiver can be reached from outside. A full sync runs meanwhile.',
    needsPerson: true,
    symptom: 'No delivery has come for SYNC_SILENCE_HOURS, or for much longer than usual.',
    check: 'Is the webhook still registered with this address? Does a POST from outside get 401?',
    command: `${CLI} doctor`,
    note: 'If the registration is gone, “register --url … --again” makes a new one; “sync” finds what was not delivered.',
  },
  list_incomplete: {
    title: 'A full sync could not be completed',
    remedy: 'What it read is in the mirror, and nothing was deleted. It is repeated automatically.',
    symptom: 'A full sync could not read everything, so the rest is not known.',
    check: 'The error on the full sync’s page: a page that failed or came twice, or an unusable answer.',
    command: `${CLI} sync --kind KIND --wait`,
    note: 'The full sync is also repeated automatically.',
  },
  deletions_unproven: {
    title: 'Deletions could not be proven',
    remedy:
      'The list kept changing between two list scans. Run a full sync again when less changes, or refetch the records named.',
    needsPerson: true,
    symptom:
      'Records are missing from the list, and five pairs of list scans did not agree on which, so none of them was deleted.',
    check: 'The records named: do they still exist in the compliance service?',
    command: `${CLI} sync --kind KIND --wait`,
    note: 'Best at a time when less changes.',
  },
  deletion_pending: {
    title: 'Deletions need approval',
    remedy:
      'Unusually many records, the last one, or one that only a person can check, are gone from the compliance service. Check there that they were really deleted, then approve the deletions here.',
    needsPerson: true,
    symptom:
      'More than two and more than a fifth of a kind’s records, or the last one, are gone from the compliance service at once, and no event announced it. Or only events have shown a record, before there were credentials, and the API does not know it; or the list does not show it any more, and no request can carry its id or its own address has no usable answer, as after a merge of two vendors. For an assessment, its address has had no usable answer for some minutes, and those of others have. It may be a fault there.',
    check: 'The ids on the full sync’s page, all or some of them, in the compliance service itself.',
    command: `${CLI} deletions approve NUMBER`,
    note: 'It shows the ids and asks. In a script, add --yes DIGEST, with the digest that it prints. The approval is for exactly these ids and for one hour. It is rejected if other deletions wait by then. A full sync looks again after 1, 2, 4 … minutes: records that are back no longer wait.',
  },
  restored: {
    title: 'A copy of the database was put back',
    remedy:
      'What was accepted after the copy was made is not in it. Full syncs bring policies and vendors back. Assessments have no list: have the events of that time delivered again, or name the assessments in RISK_IDS_FILE. Then resolve the gap.',
    needsPerson: true,
    symptom:
      'A backup or a dump was put back, or another server of the database took over. What was accepted after the copy was made is not in it, and assessments that only those events named are unknown. Risk assessments are not in sync until a person has resolved their gap.',
    check:
      'The error: from when to when events are missing. In the compliance service: which events of that time were about risk assessments?',
    command: `${CLI} gaps resolve NUMBER`,
    note: 'Before it, have the service deliver those events again, or name the assessments in RISK_IDS_FILE and start a full sync: the mirror cannot know whether one is still missing. The gaps of policies and vendors are resolved by their next full sync.',
  },
};

/** A reason that this version does not know has no guide. */
export function gapText(reason: string): GapText & Partial<GapGuide> {
  return Object.hasOwn(GAP_TEXTS, reason)
    ? GAP_TEXTS[reason as GapReason]
    : { title: reason.replaceAll('_', ' '), remedy: 'See its error.' };
}

/** The page of the open gaps with these reasons alone: among hundreds of others they would be on a later page. */
export const gapsHref = (...reasons: string[]): string =>
  `/gaps?reason=${[...new Set(reasons)].map(encodeURIComponent).join(',')}`;

/** When the first of them was opened; null: there is none. ISO 8601. */
export function oldestOf(gaps: readonly OpenGaps[]): string | null {
  return gaps.map((gap) => gap.oldest_at).sort()[0] ?? null;
}

/** Whether a person may say that there is no such record. */
export const isOfUnknownId = (gap: Pick<OpenGaps, 'reason'>): boolean =>
  isUnreadable(gap) || gap.reason === 'unproven_id';

/** Whether the API does not show the gap's record, so that no read can verify it. Its kind can be in sync all the same. */
export function isUnreadable({ reason }: Pick<OpenGaps, 'reason'>): boolean {
  return reason === 'unresolved' || reason === 'unaddressable';
}

/** The next delivery, or a retry of the event, ends these, also without an API. */
const ENDED_BY_DELIVERIES = ['silence', 'rejected_signatures', 'no_signing_secret', 'failed_event'];

/** Whether only a person can know that nothing is missing any more. With an API, a full sync knows it of a kind that has a list. */
export function isEndedByPerson(
  { reason, kind }: Pick<OpenGaps, 'reason' | 'kind'>,
  eventsOnly: boolean,
): boolean {
  if (eventsOnly) return !ENDED_BY_DELIVERIES.includes(reason);
  if (isOfUnknownId({ reason })) return true;
  return kind === 'risk_assessment' && (reason === 'restored' || reason === 'trimmed_event');
}
