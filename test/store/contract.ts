import { describe } from 'vitest';
import { IS_FULL } from '../support/full.ts';
import { describeAbsences } from './contract/absences.ts';
import { describeAccepting } from './contract/accepting.ts';
import { describeClaims } from './contract/claims.ts';
import { describeCounters } from './contract/counters.ts';
import { describeDeliveries } from './contract/deliveries.ts';
import { describeDifferences } from './contract/differences.ts';
import { describeDue } from './contract/due.ts';
import { describeFeed } from './contract/feed.ts';
import { describeFields } from './contract/fields.ts';
import { describeGaps } from './contract/gaps.ts';
import { describeHostileInput } from './contract/hostile.ts';
import { describeListPages } from './contract/list-pages.ts';
import { describeLists } from './contract/lists.ts';
import { describeProvisional } from './contract/provisional.ts';
import { describeReads } from './contract/reads.ts';
import { describeRegistrations } from './contract/registrations.ts';
import { describeReplicas } from './contract/replicas.ts';
import { describeReports } from './contract/reports.ts';
import { describeRetention } from './contract/retention.ts';
import { describeStatus } from './contract/status.ts';
import { describeSyncRuns } from './contract/sync-runs.ts';
import { describeTokens } from './contract/tokens.ts';
import { describeUnread } from './contract/unread.ts';
import type { OpenEngine } from './scene.ts';

/** A part that crosses as a thread's messages what is most various: every delivery, gaps, whole records, errors. */
export function describePartOfStoreContract(name: string, open: OpenEngine): void {
  describe(`the store on ${name}`, () => {
    describeClaims(open);
    describeGaps(open);
    describeListPages(open);
    // Each story starts two threads.
    if (!IS_FULL) return;
    describeAccepting(open);
    describeReports(open);
    describeReplicas(open);
  });
}

/** What every engine behind the port must do. Speaks only of the port's verbs and of the tables that users read. */
export function describeStoreContract(name: string, open: OpenEngine): void {
  describe(`the store on ${name}`, () => {
    describeAccepting(open);
    describeClaims(open);
    describeProvisional(open);
    describeCounters(open);
    describeReads(open);
    describeListPages(open);
    describeDue(open);
    describeAbsences(open);
    describeDifferences(open);
    describeSyncRuns(open);
    describeGaps(open);
    describeUnread(open);
    describeFeed(open);
    describeFields(open);
    describeStatus(open);
    describeReports(open);
    describeDeliveries(open);
    describeLists(open);
    describeRetention(open);
    describeTokens(open);
    describeRegistrations(open);
    describeReplicas(open);
    describeHostileInput(open);
  });
}
