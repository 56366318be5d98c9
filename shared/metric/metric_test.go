package metric

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"time"
)

// covers: L2
func TestACountIsOneLineOfTheEmbeddedMetricFormat(t *testing.T) {
	var out bytes.Buffer
	before := time.Now().UnixMilli()
	Count(t.Context(), slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelError})).With("function", "f"), LegacyRefusals, Entry, "flowId")
	if bytes.Count(out.Bytes(), []byte("\n")) != 1 {
		t.Fatalf("%d lines: %s", bytes.Count(out.Bytes(), []byte("\n")), out.String())
	}
	// The format: a directive names members of the root, each of which is there.
	var line struct {
		AWS struct {
			Timestamp         int64
			CloudWatchMetrics []struct {
				Namespace  string
				Dimensions [][]string
				Metrics    []struct{ Name, Unit string }
			}
		} `json:"_aws"`
	}
	var root map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &root); err != nil {
		t.Fatal(err)
	}
	if at := line.AWS.Timestamp; at < before || at > time.Now().UnixMilli() || len(line.AWS.CloudWatchMetrics) != 1 {
		t.Fatalf("%s", out.String())
	}
	m := line.AWS.CloudWatchMetrics[0]
	if m.Namespace != "pxhost" || len(m.Dimensions) != 1 || len(m.Dimensions[0]) != 1 || len(m.Metrics) != 1 || m.Metrics[0].Unit != "Count" ||
		root[m.Dimensions[0][0]] != "flowId" || root[m.Metrics[0].Name] != 1.0 || root["function"] != "f" {
		t.Errorf("%s", out.String())
	}
}
