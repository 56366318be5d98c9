// Package jsonata evaluates JSONata expressions the way AWS Step Functions
// does, for the local Step Functions emulator.
//
// It runs the official JavaScript implementation, version 2.0.6 (the version
// AWS names), on goja: vendored/jsonata.js is the npm package's own file,
// byte for byte, with its licence beside it. The modern build is used: on the
// same goja it evaluates three to five times faster than the ES5 build.
//
// What differs from plain JSONata, as on AWS:
//
//   - $eval is refused; $partition, $range, $hash, $random(seed), $uuid and
//     $parse exist.
//   - There is no context value: `$`, `$$`, `%`, wildcards and unqualified
//     field names at the top level are refused when the expression is compiled.
//   - A call to a function that nobody defines is refused when compiled.
//   - A result of nothing (undefined), a function, NaN or an infinity is an
//     error, at any depth.
//
// What differs from AWS, knowingly:
//
//   - $random(seed) is deterministic, but its sequence is not AWS's.
//   - The error texts are the JavaScript implementation's.
//   - An evaluation that takes longer than the engine's limit is an error; AWS
//     does not publish its limit.
//
// Numbers are IEEE doubles: an integer beyond 2^53 that passes through an
// expression is rounded, by the native shortcut exactly as by JavaScript.
//
// A plain path ($states.input.a.b, $x.y) is answered without JavaScript when
// that cannot change the answer; everything else, arrays on the way included,
// goes to goja. A differential test holds the two equal.
//
// The package knows nothing of state machines, states or AWS.
package jsonata
