// Package asl reads Amazon States Language definitions for the local Step
// Functions emulator and refuses, by name and place, all that the emulator does
// not run. What it accepts, it describes as a tree of Go values; it runs
// nothing.
//
// Supported: STANDARD workflows whose QueryLanguage is JSONata, with the states
// Pass, Task, Choice, Wait, Succeed, Fail, Parallel and Map (Mode INLINE, and Mode
// DISTRIBUTED with ExecutionType STANDARD); ItemReader with s3:getObject and the
// InputTypes JSON and JSONL; the
// Task resources lambda:invoke and lambda:invoke.waitForTaskToken with the
// arguments FunctionName, Payload and InvocationType RequestResponse; Retry,
// Catch, Assign, Output, TimeoutSeconds, HeartbeatSeconds.
//
// Refused, each by its name: JSONPath and its fields; every other Task
// resource; Credentials; a distributed Map's ItemBatcher and ResultWriter, its
// ExecutionType EXPRESS, s3:listObjectsV2 and the InputTypes CSV, MANIFEST and
// PARQUET; what belongs to a distributed Map in an inline one; Iterator
// (ItemProcessor is its name now); a HeartbeatSeconds that nobody could answer;
// any field the language does not know.
//
// All violations of one definition are reported, not the first alone.
package asl
