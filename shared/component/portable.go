package component

import (
	"math"

	"github.com/pxhost/pxhost/shared/quantity"
)

func isFinite(v quantity.Value) bool {
	n, ok := v.(quantity.Number)
	return !ok || !math.IsInf(n.Magnitude, 0) && !math.IsNaN(n.Magnitude)
}

func powInt(x float64, n int) float64 { return math.Pow(x, float64(n)) }
func pow(x, y float64) float64        { return math.Pow(x, y) }
func exp(x float64) float64           { return math.Exp(x) }
func sin(x float64) float64           { return math.Sin(x) }
func cos(x float64) float64           { return math.Cos(x) }
func tan(x float64) float64           { return math.Tan(x) }
func asin(x float64) float64          { return math.Asin(x) }
func acos(x float64) float64          { return math.Acos(x) }
func atan(x float64) float64          { return math.Atan(x) }
func atan2(y, x float64) float64      { return math.Atan2(y, x) }

func log(x float64) float64 {
	if x <= 0 {
		return math.NaN()
	}
	return math.Log(x)
}

func log10(x float64) float64 {
	if x <= 0 {
		return math.NaN()
	}
	return math.Log10(x)
}
