import math

import px


@px.function(
    key="pipe_modulus",
    version=1,
    description="Elastic section modulus of a round pipe",
    label={"en": "Section modulus of a pipe", "ko": "원형 강관 단면계수"},
    inputs={
        "outer_diameter": px.number(unit="mm", exclusive_minimum=0),
        "wall": px.number(unit="mm", exclusive_minimum=0),
    },
    results={"modulus": px.number(unit="mm^3")},
    capabilities=[],
)
def pipe_modulus(outer_diameter, wall):
    inner = outer_diameter - 2 * wall
    if inner < 0:
        raise ValueError("the wall is thicker than the pipe")
    return {"modulus": math.pi * (outer_diameter**4 - inner**4) / (32 * outer_diameter)}
