// Package metric counts what operators watch, as log lines in CloudWatch's
// embedded metric format: CloudWatch makes a metric of each where it reads the
// log, and elsewhere they are lines like others.
//
// A metric's name and its dimension's values are fixed texts of the program. What
// a caller sent is never one of them: it would be told, and each new value would
// be another metric to pay for.
package metric

import (
	"context"
	"log/slog"
	"time"
)

// Namespace is where CloudWatch keeps the metrics.
const Namespace = "pxhost"

// LegacyNamespace is where the telemetry of a legacy cohort is kept, apart from the
// other (L3).
const LegacyNamespace = "pxhost/legacy"

// LegacyCalls counts what came for the legacy cohort's endpoint, by Outcome: forwarded,
// refused or failed. While forwarded is zero, nobody uses it.
const LegacyCalls = "LegacyCalls"

// Outcome is the dimension of LegacyCalls.
const Outcome = "outcome"

// LegacyRefusals counts requests that were refused for a legacy entry, by that
// entry (L2).
const LegacyRefusals = "LegacyRefusals"

// Entry is the dimension of LegacyRefusals.
const Entry = "entry"

type directive struct {
	Timestamp int64 // milliseconds since 1970, UTC
	Metrics   []set `json:"CloudWatchMetrics"`
}

type set struct {
	Namespace  string
	Dimensions [][]string
	Metrics    []definition
}

type definition struct {
	Name string
	Unit string
}

// Count adds one to a metric, for one value of its dimension. The line is written
// whatever the log's level: a level chooses what one wants to read, and a count
// that lacks some is wrong.
func Count(ctx context.Context, log *slog.Logger, name, dimension, value string) {
	CountIn(ctx, log, Namespace, name, dimension, value)
}

// CountIn is Count in another namespace.
func CountIn(ctx context.Context, log *slog.Logger, namespace, name, dimension, value string) {
	now := time.Now()
	record := slog.NewRecord(now, slog.LevelInfo, "metric", 0)
	record.AddAttrs(
		slog.Any("_aws", directive{now.UnixMilli(), []set{{namespace, [][]string{{dimension}}, []definition{{name, "Count"}}}}}),
		slog.String(dimension, value), slog.Int(name, 1))
	// As with any log line, there is nowhere to tell of one that could not be written.
	_ = log.Handler().Handle(ctx, record)
}
