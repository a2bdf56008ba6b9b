import { describe } from 'vitest';
import { IS_FULL } from '../support/full.ts';
import { describeAbsences } from './contract/absences.ts';
import { describeAccepting } from './contract/accepting.ts';
import { describeDeliveries } from './contract/deliveries.ts';
import { describeDifferences } from './contract/differences.ts';
import { describeDue } from './contract/due.ts';
import { describeFeed } from './contract/feed.ts';
import { describeFields } from './contract/fields.ts';
import { describeHistory } from './contract/history.ts';
import { describeHostileInput } from './contract/hostile.ts';
import { describeListPages } from './contract/list-pages.ts';
import { describeLists } from './contract/lists.ts';
import { describeProblems } from './contract/problems.ts';
import { describeProcessing } from './contract/processing.ts';
import { describeProvisional } from './contract/provisional.ts';
import { describeReads } from './contract/reads.ts';
import { describeRegistrations } from './contract/registrations.ts';
import { describeReports } from './contract/reports.ts';
import { describeRetention } from './contract/retention.ts';
import { describeShared } from './contract/shared.ts';
import { describeStatus } from './contract/status.ts';
import { describeSyncRuns } from './contract/sync-runs.ts';
import { describeTokens } from './contract/tokens.ts';
import { describeUnread } from './contract/unread.ts';
import type { OpenEngine } from './scene.ts';

/** What crosses between threads, errors among it; that it crosses in order, and what a thread can break, is in thread.test.ts. */
export function describePartOfStoreContract(name: string, open: OpenEngine): void {
  describe(`the store on ${name}`, () => {
    describeProcessing(open);
    // Each story starts two threads.
    if (!IS_FULL) return;
    describeProblems(open);
    describeListPages(open);
    describeAccepting(open);
    describeReports(open);
    describeShared(open);
  });
}

/** What every engine behind the port must do. Speaks only of the port's verbs and of the tables that users read. */
export function describeStoreContract(name: string, open: OpenEngine): void {
  describe(`the store on ${name}`, () => {
    describeAccepting(open);
    describeProcessing(open);
    describeProvisional(open);
    describeReads(open);
    describeListPages(open);
    describeDue(open);
    describeAbsences(open);
    describeDifferences(open);
    describeSyncRuns(open);
    describeProblems(open);
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
    describeShared(open);
    describeHostileInput(open);
    describeHistory(open);
  });
}
