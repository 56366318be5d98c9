// Package dynamodb is a strict DynamoDB for one machine: the operations below on
// one bbolt file, with DynamoDB's semantics, limits and messages. What it does
// not support it refuses by name; it never ignores a part of a request.
//
// # Supported
//
// GetItem, BatchGetItem, PutItem, UpdateItem, DeleteItem, BatchWriteItem, Query,
// Scan, TransactGetItems, TransactWriteItems, CreateTable, DescribeTable,
// DeleteTable, ListTables, UpdateTimeToLive, DescribeTimeToLive.
//
//   - The whole expression grammar: conditions, filters, key conditions,
//     projections and updates (package expression).
//   - All ten attribute types; numbers of 38 digits (package decimal).
//   - Global secondary indexes, sparse, with every projection.
//   - ReturnValues, ReturnValuesOnConditionCheckFailure, ReturnConsumedCapacity
//     (units as AWS counts them, indexes included), cancellation reasons.
//   - ClientRequestToken, remembered for ten minutes, over restarts too.
//   - The limits: 400 KB an item, 1 MB a page, 16 MB a batch read and a request,
//     4 MB and 100 actions a transaction, 2048 and 1024 bytes of key, 4 KB and
//     300 operators an expression, 32 levels of nesting.
//
// # Refused by name
//
// Every other operation; the parameters from before expressions (Expected,
// AttributeUpdates, KeyConditions, QueryFilter, ScanFilter, ConditionalOperator,
// AttributesToGet); local secondary indexes, vector indexes, streams, encryption
// settings, resource policies, table classes, tags, on-demand and warm
// throughput limits, global tables; table ARNs in the place of names. Members
// that DynamoDB does not have are refused as well, where AWS ignores them. The
// list is inputs.go, and a test holds it against the AWS SDK.
//
// # Where AWS differs
//
//   - Indexes are up to date at once, and reads that do not ask for consistency
//     see the last commit all the same. AWS may lag.
//   - CreateTable answers CREATING, but the table is there at once; DeleteTable
//     answers DELETING, but it is gone. Provisioned throughput is kept and never
//     throttles.
//   - Writes run one after another, so a transaction conflicts only with writes
//     that were under way at the same time: those that share its commit. The
//     later of two such writes on one item gets TransactionConflict, as on AWS,
//     if either is part of a transaction. TransactGetItems never conflicts.
//   - A cancelled transaction leaves its ClientRequestToken unused.
//   - Expired items are deleted by a sweep every minute, at least a minute after
//     they expired (ttl.go).
//   - Since 2026 some AWS regions word violations of constraints differently
//     ("Value at 'TableName' failed…", only the first one). The documented older
//     form is used here; programs must not depend on either.
//   - size() of a string counts bytes of UTF-8. Sets come back sorted.
//   - {"NULL": false} is refused, as the documentation says, where AWS of late
//     stores it as true.
//
// # Durability
//
// A write is answered when its commit is synced. Writes that arrive during a
// commit share the next one. After a crash everything answered is there, tokens
// included, and nothing is there in part. ReturnItemCollectionMetrics may be asked
// for; as on AWS, tables without local secondary indexes have none.
//
// The package must not know what the project stores in it, nor who calls:
// requests have been authenticated by the time they arrive.
package dynamodb
