package dynamodb

import (
	"strings"

	"github.com/pxhost/pxhost/infra/local/dynamodb/expression"
)

// expressions are the expressions of one request or action, first as they were
// sent, then parsed. sources names those that the operation has, in the order
// in which messages list them.
type expressions struct {
	sources []source
	names   nameMap
	values  rawItem

	update     *expression.Update
	condition  *expression.Condition
	key        []expression.KeyTerm
	filter     *expression.Condition
	projection *expression.Projection
}

type source struct {
	member string
	text   *string
}

const (
	updateMember     = "UpdateExpression"
	conditionMember  = "ConditionExpression"
	keyMember        = "KeyConditionExpression"
	filterMember     = "FilterExpression"
	projectionMember = "ProjectionExpression"
)

func (e *expressions) text(member string) *string {
	for _, s := range e.sources {
		if s.member == member {
			return s.text
		}
	}
	return nil
}

// checkPresence fails if names or values are defined without an expression that
// could use them.
func (e *expressions) checkPresence() *apiError {
	var withValues []string
	anyExpression, anyWithValues := false, false
	for _, s := range e.sources {
		anyExpression = anyExpression || s.text != nil
		if s.member != projectionMember {
			withValues = append(withValues, s.member)
			anyWithValues = anyWithValues || s.text != nil
		}
	}
	if e.names != nil && !anyExpression {
		return errInvalid("ExpressionAttributeNames can only be specified when using expressions")
	}
	if e.values != nil && !anyWithValues {
		verb := " is null"
		if len(withValues) > 1 {
			verb = " are null"
		}
		return errInvalid("ExpressionAttributeValues can only be specified when using expressions: " + strings.Join(withValues, " and ") + verb)
	}
	return nil
}

// parse checks names and values and parses the expressions.
func (e *expressions) parse() *apiError {
	definitions, err := e.define()
	if err != nil {
		return err
	}
	scope := expression.NewScope(e.names, definitions)
	fail := func(member string, fault error) *apiError {
		return errInvalid("Invalid " + member + ": " + fault.Error())
	}
	var fault error
	if text := e.text(updateMember); text != nil {
		if e.update, fault = expression.ParseUpdate(*text, scope); fault != nil {
			return fail(updateMember, fault)
		}
	}
	if text := e.text(conditionMember); text != nil {
		if e.condition, fault = expression.ParseCondition(*text, scope); fault != nil {
			return fail(conditionMember, fault)
		}
	}
	var keyFault error
	if text := e.text(keyMember); text != nil {
		var prefixed bool
		if e.key, prefixed, keyFault = expression.ParseKeyCondition(*text, scope); prefixed {
			return fail(keyMember, keyFault)
		}
	}
	if text := e.text(filterMember); text != nil {
		if e.filter, fault = expression.ParseCondition(*text, scope); fault != nil {
			return fail(filterMember, fault)
		}
	}
	if text := e.text(projectionMember); text != nil {
		if e.projection, fault = expression.ParseProjection(*text, scope); fault != nil {
			return fail(projectionMember, fault)
		}
	}
	if fault = scope.CheckUsed(); fault != nil {
		return errInvalid(fault.Error())
	}
	if keyFault != nil { // a key condition of a wrong form is told last
		return errInvalid(keyFault.Error())
	}
	return nil
}

const maxNamePlaceholder = 255 // bytes, "#" or ":" included

// define checks ExpressionAttributeNames and ExpressionAttributeValues.
func (e *expressions) define() ([]expression.Definition, *apiError) {
	if e.names != nil && len(e.names) == 0 {
		return nil, errInvalid("ExpressionAttributeNames must not be empty")
	}
	for _, n := range e.names {
		switch {
		case !expression.ValidPlaceholder(n.Placeholder, '#') || len(n.Placeholder) > maxNamePlaceholder:
			return nil, errInvalid(`ExpressionAttributeNames contains invalid key: Syntax error; key: "` + n.Placeholder + `"`)
		case n.Attribute == "":
			return nil, errInvalid("ExpressionAttributeNames contains invalid value: Empty attribute name for key " + n.Placeholder)
		case len(n.Attribute) > maxAttributeName:
			return nil, errInvalid("ExpressionAttributeNames contains invalid value: " +
				"Attribute name is too large, must be less than 65536 bytes for key " + n.Placeholder)
		}
	}
	if e.values != nil && len(e.values) == 0 {
		return nil, errInvalid("ExpressionAttributeValues must not be empty")
	}
	for _, v := range e.values {
		if !expression.ValidPlaceholder(v.name, ':') || len(v.name) > maxNamePlaceholder {
			return nil, errInvalid(`ExpressionAttributeValues contains invalid key: Syntax error; key: "` + v.name + `"`)
		}
	}
	definitions := make([]expression.Definition, len(e.values))
	for i, v := range e.values {
		value, err := v.value.value()
		if err != nil {
			return nil, errInvalid("ExpressionAttributeValues contains invalid value: " + err.Message + " for key " + v.name)
		}
		definitions[i] = expression.Definition{Placeholder: v.name, Value: value}
	}
	return definitions, nil
}
