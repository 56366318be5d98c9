"""The girder check of girder_check.pxflow, as an SDK-linked Flow.

HS20-44: a truck of 8, 32 and 32 kip at 14 ft stands where the moment of a simply supported
girder is greatest.
"""

import px

flow = px.flow("girder_check", label={"en": "Girder check, HS20-44", "ko": "거더 검토, HS20-44"})

# What is given.
dead_load = flow.input(
    "dead_load",
    px.number(unit="kip/ft", shape="scalar", nullable=False, minimum=0, quantity_kind="line_load"),
)
impact = flow.input(
    "impact",
    px.number(
        unit="1",
        shape="scalar",
        nullable=False,
        minimum=0,
        maximum=1,
        quantity_kind="factor",
    ),
)
section_modulus = flow.input(
    "section_modulus",
    px.number(
        unit="in^3",
        shape="scalar",
        nullable=False,
        exclusive_minimum=0,
        quantity_kind="section_modulus",
    ),
)
span = flow.input(
    "span",
    px.number(
        unit="ft",
        shape="scalar",
        nullable=False,
        exclusive_minimum=34,
        quantity_kind="length",
    ),
)
yield_stress = flow.input(
    "yield_stress",
    px.number(
        unit="ksi",
        shape="scalar",
        nullable=False,
        exclusive_minimum=0,
        quantity_kind="stress",
    ),
)

# 고정하중
dead_moment = flow.node(
    "dead_moment",
    px.component("px.formula", 1),
    settings={
        "inputs": {
            "load": {"quantityKind": "line_load", "unit": "kip/ft"},
            "span": {"quantityKind": "length", "unit": "ft"},
        },
        "results": {
            "m": {"expression": "load * span ^ 2 / 8", "quantityKind": "moment", "unit": "kip*ft"},
        },
    },
    label={"en": "Dead load moment at midspan", "ko": "지간 중앙의 고정하중 모멘트"},
)
flow.connect(dead_moment.input("load"), dead_load)
flow.connect(dead_moment.input("span"), span)

# 활하중: the truck
truck_weight = flow.node(
    "truck_weight",
    px.component("px.formula", 1),
    settings={
        "inputs": {
            "front": {"quantityKind": "force", "unit": "kip"},
            "middle": {"quantityKind": "force", "unit": "kip"},
            "rear": {"quantityKind": "force", "unit": "kip"},
        },
        "results": {
            "w": {"expression": "front + middle + rear", "quantityKind": "force", "unit": "kip"},
        },
    },
    label={"en": "Weight of the truck", "ko": "트럭 총중량"},
)
flow.connect(truck_weight.input("front"), px.literal({"unit": "kip", "value": 8}))
flow.connect(truck_weight.input("middle"), px.literal({"unit": "kip", "value": 32}))
flow.connect(truck_weight.input("rear"), px.literal({"unit": "kip", "value": 32}))
resultant_offset = flow.node(
    "resultant_offset",
    px.component("px.formula", 1),
    settings={
        "inputs": {
            "front": {"quantityKind": "force", "unit": "kip"},
            "rear": {"quantityKind": "force", "unit": "kip"},
            "spacing": {"quantityKind": "length", "unit": "ft"},
            "weight": {"quantityKind": "force", "unit": "kip"},
        },
        "results": {
            "e": {
                "expression": "(rear - front) * spacing / weight / 2",
                "quantityKind": "length",
                "unit": "ft",
            },
        },
    },
    label={
        "en": "Half the distance from the middle axle to the resultant",
        "ko": "중간축과 합력 사이 거리의 절반",
    },
)
flow.connect(resultant_offset.input("front"), px.literal({"unit": "kip", "value": 8}))
flow.connect(resultant_offset.input("rear"), px.literal({"unit": "kip", "value": 32}))
flow.connect(resultant_offset.input("spacing"), px.literal({"unit": "ft", "value": 14}))
flow.connect(resultant_offset.input("weight"), truck_weight.output("w"))
moment_at_middle_axle = flow.node(
    "moment_at_middle_axle",
    px.component("px.formula", 1),
    settings={
        "inputs": {
            "front": {"quantityKind": "force", "unit": "kip"},
            "offset": {"quantityKind": "length", "unit": "ft"},
            "spacing": {"quantityKind": "length", "unit": "ft"},
            "span": {"quantityKind": "length", "unit": "ft"},
            "weight": {"quantityKind": "force", "unit": "kip"},
        },
        "results": {
            "m": {
                "expression": "weight * (span / 2 - offset) ^ 2 / span - front * spacing",
                "quantityKind": "moment",
                "unit": "kip*ft",
            },
        },
    },
    label={
        "en": "Moment at the middle axle, middle axle and resultant equally far from midspan",
        "ko": "중간축 위치의 모멘트 (중간축과 합력이 지간 중앙에서 같은 거리)",
    },
)
flow.connect(moment_at_middle_axle.input("front"), px.literal({"unit": "kip", "value": 8}))
flow.connect(moment_at_middle_axle.input("offset"), resultant_offset.output("e"))
flow.connect(moment_at_middle_axle.input("spacing"), px.literal({"unit": "ft", "value": 14}))
flow.connect(moment_at_middle_axle.input("span"), span)
flow.connect(moment_at_middle_axle.input("weight"), truck_weight.output("w"))
moment_at_midspan = flow.node(
    "moment_at_midspan",
    px.component("px.formula", 1),
    settings={
        "inputs": {
            "front": {"quantityKind": "force", "unit": "kip"},
            "middle": {"quantityKind": "force", "unit": "kip"},
            "rear": {"quantityKind": "force", "unit": "kip"},
            "spacing": {"quantityKind": "length", "unit": "ft"},
            "span": {"quantityKind": "length", "unit": "ft"},
        },
        "results": {
            "m": {
                "expression": "middle * span / 4 + (front + rear) * (span / 2 - spacing) / 2",
                "quantityKind": "moment",
                "unit": "kip*ft",
            },
        },
    },
    label={"en": "Moment at midspan, middle axle at midspan", "ko": "중간축이 지간 중앙에 있을 때의 중앙 모멘트"},
)
flow.connect(moment_at_midspan.input("front"), px.literal({"unit": "kip", "value": 8}))
flow.connect(moment_at_midspan.input("middle"), px.literal({"unit": "kip", "value": 32}))
flow.connect(moment_at_midspan.input("rear"), px.literal({"unit": "kip", "value": 32}))
flow.connect(moment_at_midspan.input("spacing"), px.literal({"unit": "ft", "value": 14}))
flow.connect(moment_at_midspan.input("span"), span)
live_moment = flow.node(
    "live_moment",
    px.component("px.envelope", 1),
    settings={
        "cases": ["at_middle_axle", "at_midspan"],
        "mode": "max",
        "quantityKind": "moment",
        "unit": "kip*ft",
    },
    label={"en": "Governing live load moment", "ko": "지배 활하중 모멘트"},
)
flow.connect(live_moment.input("at_middle_axle"), moment_at_middle_axle.output("m"))
flow.connect(live_moment.input("at_midspan"), moment_at_midspan.output("m"))
live_with_impact = flow.node(
    "live_with_impact",
    px.component("px.formula", 1),
    settings={
        "inputs": {
            "impact": {"quantityKind": "factor", "unit": "1"},
            "live": {"quantityKind": "moment", "unit": "kip*ft"},
        },
        "results": {
            "m": {"expression": "live * (1 + impact)", "quantityKind": "moment", "unit": "kip*ft"},
        },
    },
    label={"en": "Live load moment with impact", "ko": "충격을 포함한 활하중 모멘트"},
)
flow.connect(live_with_impact.input("impact"), impact)
flow.connect(live_with_impact.input("live"), live_moment.output("value"))
total_moment = flow.node(
    "total_moment",
    px.component("px.formula", 1),
    settings={
        "inputs": {
            "dead": {"quantityKind": "moment", "unit": "kip*ft"},
            "live": {"quantityKind": "moment", "unit": "kip*ft"},
        },
        "results": {"m": {"expression": "dead + live", "quantityKind": "moment", "unit": "kip*ft"}},
    },
    label={"en": "Total moment", "ko": "총 모멘트"},
)
flow.connect(total_moment.input("dead"), dead_moment.output("m"))
flow.connect(total_moment.input("live"), live_with_impact.output("m"))
stress = flow.node(
    "stress",
    px.component("px.formula", 1),
    settings={
        "inputs": {
            "modulus": {"quantityKind": "section_modulus", "unit": "in^3"},
            "moment": {"quantityKind": "moment", "unit": "kip*ft"},
        },
        "results": {
            "s": {"expression": "moment / modulus", "quantityKind": "stress", "unit": "ksi"},
        },
    },
    label={"en": "Bending stress at the extreme fibre", "ko": "연단 휨응력"},
)
flow.connect(stress.input("modulus"), section_modulus)
flow.connect(stress.input("moment"), total_moment.output("m"))
utilization = flow.node(
    "utilization",
    px.component("px.formula", 1),
    settings={
        "inputs": {
            "stress": {"quantityKind": "stress", "unit": "ksi"},
            "yield_stress": {"quantityKind": "stress", "unit": "ksi"},
        },
        "results": {
            "u": {"expression": "stress / yield_stress", "quantityKind": "ratio", "unit": "1"},
        },
    },
    label={"en": "Stress over yield stress", "ko": "항복응력에 대한 응력비"},
)
flow.connect(utilization.input("stress"), stress.output("s"))
flow.connect(utilization.input("yield_stress"), yield_stress)

# What is told.
flow.result(
    "dead_moment",
    px.number(unit="kip*ft", shape="scalar", nullable=False, quantity_kind="moment"),
    dead_moment.output("m"),
)
flow.result(
    "live_moment",
    px.number(unit="kip*ft", shape="scalar", nullable=False, quantity_kind="moment"),
    live_moment.output("value"),
)
flow.result(
    "stress",
    px.number(unit="ksi", shape="scalar", nullable=False, quantity_kind="stress"),
    stress.output("s"),
)
flow.result(
    "total_moment",
    px.number(unit="kip*ft", shape="scalar", nullable=False, quantity_kind="moment"),
    total_moment.output("m"),
)
flow.result(
    "utilization",
    px.number(unit="1", shape="scalar", nullable=False, minimum=0, quantity_kind="ratio"),
    utilization.output("u"),
)
