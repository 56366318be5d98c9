// Package quantity holds what a port accepts and what a value is: types, units,
// shapes, nullability and constraints, and the two questions asked of them. Do
// two ports fit (Fits), and is this JSON a value of that port (Port.Decode)?
//
// # Units
//
// A unit is a product, quotient or integer power of the symbols in symbols.go.
// Factors to coherent SI (m, kg, s, K, A, mol) are exact: a rational times a power
// of pi. The radian is 1, as in SI. A conversion rounds once, to nearest even,
// from the exact result, on every machine the same. degC and degF have a zero of
// their own and therefore stand alone; a difference of temperatures is
// delta_degC, delta_degF or K, and a temperature never passes for a difference.
//
// # Values
//
// A Number keeps the magnitude in the unit in which it was given to its port:
// what is not converted is the same bits when it leaves. Calculations go through
// Unit.ToSI and Unit.FromSI.
//
// The package knows JSON and diagnostics. It must not know Flows, Reports,
// Components or where a value comes from.
package quantity
