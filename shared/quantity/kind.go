package quantity

// kinds are the quantity kinds whose dimension is fixed. Others may be used; they
// are compared by name alone.
var kinds = map[string]Dimension{
	"length": length, "displacement": length, "area": area, "volume": volume, "section_modulus": volume,
	"second_moment_of_area": {4}, "warping_constant": {6}, "curvature": {-1},
	"mass": mass, "density": {-3, 1}, "time": duration, "frequency": frequency,
	"speed": {1, 0, -1}, "acceleration": {1, 0, -2},
	"force": force, "line_load": lineLoad, "area_load": pressure, "unit_weight": {-2, 1, -2},
	"moment": energy, "torque": energy, "energy": energy, "power": power,
	"stress": pressure, "pressure": pressure, "modulus": pressure, "stiffness": lineLoad, "rotational_stiffness": energy,
	"flexural_rigidity": {3, 1, -2},
	"temperature":       temperature, "temperature_difference": temperature, "thermal_expansion": {0, 0, 0, -1},
	"angle": one, "strain": one, "ratio": one, "factor": one,
}
