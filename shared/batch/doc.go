// Package batch is what a Batch Run is made of: reviewed cases with stable keys
// and inputs of their own, and the explicit way in which the results of all cases
// become one (R5). It holds cases and merge against the ports of the Flow when a
// Batch is planned, names the child Run of each case, and merges what the cases
// resulted in.
//
// It starts, stores and reads nothing, and knows no Report: the connection comes to
// it as ports and the inputs that a case may leave out.
package batch
