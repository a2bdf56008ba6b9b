import { VERDICTS, type Verdict } from '../mirror/problems.ts';
import type { KindStatus, StoreSummary } from '../store/reports.ts';
import type { Problem } from './problems.ts';
import { count } from './words.ts';

/** The whole service in one sentence. */
export interface ServiceVerdict {
  /** The worst of the kinds'. */
  verdict: Verdict;
  /** ISO 8601; null: not known. */
  since: string | null;
  sentence: string;
  /** What to do; null: nothing. */
  action: string | null;
}

/** What scripts ask for: whether every row is right. */
export const isWell = (verdict: Verdict): boolean => verdict === 'in_sync' || verdict === 'known_only';

/** `problems`: all open ones, the worst first. Pure. */
export function serviceVerdict(
  kinds: readonly KindStatus[],
  problems: readonly Problem[],
  events: StoreSummary['events'] = { pending: 0, failed: 0 },
): ServiceVerdict {
  const held = kinds.length > 0 ? kinds.map((kind) => kind.verdict) : problems.map((each) => each.verdict);
  const verdict = VERDICTS.find((each) => held.includes(each)) ?? 'action_required';
  const cause = problems.find((problem) => problem.verdict === verdict);
  if (cause !== undefined) {
    const { opened_at: since, sentence, action } = cause;
    return { verdict, since, sentence, action };
  }
  const such = kinds.filter((kind) => kind.verdict === verdict);
  // It holds since the first kind fell to it, or since the last one rose to it.
  const instants = (isWell(verdict) ? kinds : such).map(({ since }) => since).sort();
  const since = instants.includes(null) ? null : (instants.at(isWell(verdict) ? -1 : 0) ?? null);
  return { verdict, since, ...wordsOf(verdict, such, events) };
}

/** Of a verdict that no problem explains. */
function wordsOf(
  verdict: Verdict,
  such: readonly KindStatus[],
  { pending }: StoreSummary['events'],
): Pick<ServiceVerdict, 'sentence' | 'action'> {
  switch (verdict) {
    case 'in_sync':
      return { sentence: 'The mirror is in sync with the compliance service.', action: null };
    case 'known_only':
      return {
        sentence:
          'All that the mirror knows is confirmed. The compliance service has no list of risk assessments that could show others.',
        action: null,
      };
    case 'unverified':
      return {
        sentence: 'The mirror shows what the deliveries said, and cannot check it.',
        action:
          'Set COMPLIANCE_BASE_URL and COMPLIANCE_API_KEY, and restart, to have every record verified and lost deliveries found.',
      };
    case 'catching_up': {
      const unverified = such.reduce((sum, kind) => sum + kind.unverified, 0);
      const isFirst = such.some((kind) => kind.last_full_sync_at === null);
      const work = `${count(pending, 'event waits', 'events wait')}, ${count(unverified, 'record is', 'records are')} to be verified`;
      const sentence = `The mirror is catching up: ${isFirst ? 'the first full sync is not finished, ' : ''}${work}.`;
      return { sentence, action: null };
    }
    default:
      return {
        sentence: 'The service has stopped writing its heartbeat.',
        action: 'Look at its log, then restart it. Nothing that was acknowledged is lost.',
      };
  }
}
