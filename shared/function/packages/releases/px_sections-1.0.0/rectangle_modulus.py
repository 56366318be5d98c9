import px


@px.function(
    key="rectangle_modulus",
    version=1,
    description="Elastic section modulus of a rectangle about its strong axis",
    label={"en": "Section modulus of a rectangle", "ko": "직사각형 단면계수"},
    inputs={
        "width": px.number(unit="mm", minimum=0),
        "height": px.number(unit="mm", minimum=0),
    },
    results={"modulus": px.number(unit="mm^3")},
    capabilities=[],
)
def rectangle_modulus(width, height):
    return {"modulus": width * height**2 / 6}
