import type { Fit } from './diagnosis-search.ts';
import { ASK_SENDER, type Cause, type DiagnosisSettings, type Specimen } from './diagnosis-terms.ts';

const SECONDS = /^(0|[1-9]\d{0,10})$/;
const MILLISECONDS = /^[1-9]\d{12}$/;

/** What the time in the header tells, as far as it is one. */
export function timeCauses(
  t: string | null,
  fit: Fit | null,
  { receivedSeconds }: Specimen,
  { toleranceSeconds }: DiagnosisSettings,
): Cause[] {
  if (t === null) return [];
  if (MILLISECONDS.test(t)) {
    return [
      {
        code: 'timestamp_in_milliseconds',
        what: `t=${t} is in milliseconds, and seconds are expected.`,
        remedy: ASK_SENDER,
      },
    ];
  }
  if (!SECONDS.test(t)) {
    const what = 'The t of the header is not a whole number of seconds since 1970.';
    return [{ code: 'timestamp_unreadable', what, remedy: ASK_SENDER }];
  }
  const ageSeconds = receivedSeconds - Number(t);
  // An unsigned time says nothing: somebody may have typed it.
  if (fit === null || Math.abs(ageSeconds) <= toleranceSeconds) return [];
  const distance = spanText(Math.abs(ageSeconds));
  const allowed = `${toleranceSeconds} s are allowed (WEBHOOK_TOLERANCE_SECONDS)`;
  return ageSeconds > 0
    ? [
        {
          code: 'clock_behind',
          what: `It was signed ${distance} before it arrived, by the two clocks; ${allowed}.`,
          remedy:
            "The sender's clock is behind, ours is ahead, or the delivery was held back or replayed. `doctor` compares our clock with the service's. For a recording, give its arrival with --received-at.",
        },
      ]
    : [
        {
          code: 'clock_ahead',
          what: `It was signed ${distance} after it arrived, by the two clocks; ${allowed}.`,
          remedy:
            "The sender's clock is ahead, or ours is behind. `doctor` compares our clock with the service's.",
        },
      ];
}

function spanText(seconds: number): string {
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 120
    ? `${minutes} min ${seconds % 60} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
