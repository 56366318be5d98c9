import px


@px.function(
    key="resistance",
    version=1,
    description="Bending stress at the extreme fibre, and what it is of the yield stress",
    label={"en": "Bending resistance", "ko": "휨 저항"},
    inputs={
        "moment": px.number(unit="kN*m", quantity_kind="moment"),
        "modulus": px.number(unit="mm^3", exclusive_minimum=0, quantity_kind="section_modulus"),
        "yield_stress": px.number(unit="MPa", exclusive_minimum=0, quantity_kind="stress"),
    },
    results={
        "stress": px.number(unit="MPa", quantity_kind="stress"),
        "utilization": px.number(unit="1", minimum=0, quantity_kind="ratio"),
    },
)
def resistance(moment, modulus, yield_stress):
    stress = moment * 1e6 / modulus
    return {"stress": stress, "utilization": stress / yield_stress}
