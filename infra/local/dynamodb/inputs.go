package dynamodb

// The inputs of all operations: every member of every shape is listed here,
// either with the type it is decoded to or as refused. The order is the order
// in which violations are told. constraints.go explains the tags.

type getItemInput struct {
	ReturnConsumedCapacity   *string `aws:"enum=INDEXES|TOTAL|NONE"`
	AttributesToGet          refused
	TableName                *string `aws:"required,name"`
	Key                      rawItem `aws:"required"`
	ConsistentRead           *bool
	ProjectionExpression     *string
	ExpressionAttributeNames nameMap
}

type putItemInput struct {
	ReturnConsumedCapacity              *string `aws:"enum=INDEXES|TOTAL|NONE"`
	TableName                           *string `aws:"required,name"`
	Item                                rawItem `aws:"required"`
	ConditionalOperator                 refused
	Expected                            refused
	ReturnValues                        *string `aws:"enum=ALL_NEW|UPDATED_OLD|ALL_OLD|NONE|UPDATED_NEW"`
	ReturnItemCollectionMetrics         *string `aws:"enum=SIZE|NONE"`
	ReturnValuesOnConditionCheckFailure *string `aws:"enum=ALL_OLD|NONE"`
	ConditionExpression                 *string
	ExpressionAttributeValues           rawItem
	ExpressionAttributeNames            nameMap
}

type deleteItemInput struct {
	ReturnConsumedCapacity              *string `aws:"enum=INDEXES|TOTAL|NONE"`
	TableName                           *string `aws:"required,name"`
	ReturnValues                        *string `aws:"enum=ALL_NEW|UPDATED_OLD|ALL_OLD|NONE|UPDATED_NEW"`
	ReturnItemCollectionMetrics         *string `aws:"enum=SIZE|NONE"`
	ReturnValuesOnConditionCheckFailure *string `aws:"enum=ALL_OLD|NONE"`
	Key                                 rawItem `aws:"required"`
	ConditionalOperator                 refused
	Expected                            refused
	ConditionExpression                 *string
	ExpressionAttributeValues           rawItem
	ExpressionAttributeNames            nameMap
}

type updateItemInput struct {
	ReturnConsumedCapacity              *string `aws:"enum=INDEXES|TOTAL|NONE"`
	TableName                           *string `aws:"required,name"`
	ReturnItemCollectionMetrics         *string `aws:"enum=SIZE|NONE"`
	ReturnValues                        *string `aws:"enum=ALL_NEW|UPDATED_OLD|ALL_OLD|NONE|UPDATED_NEW"`
	ReturnValuesOnConditionCheckFailure *string `aws:"enum=ALL_OLD|NONE"`
	Key                                 rawItem `aws:"required"`
	ConditionalOperator                 refused
	Expected                            refused
	AttributeUpdates                    refused
	ConditionExpression                 *string
	UpdateExpression                    *string
	ExpressionAttributeValues           rawItem
	ExpressionAttributeNames            nameMap
}

type queryInput struct {
	Select                    *string `aws:"enum=SPECIFIC_ATTRIBUTES|COUNT|ALL_ATTRIBUTES|ALL_PROJECTED_ATTRIBUTES"`
	IndexName                 *string `aws:"name"`
	ReturnConsumedCapacity    *string `aws:"enum=INDEXES|TOTAL|NONE"`
	QueryFilter               refused
	TableName                 *string `aws:"required,name"`
	ConditionalOperator       refused
	AttributesToGet           refused
	Limit                     *int64 `aws:"range=1.."`
	KeyConditions             refused
	ExclusiveStartKey         rawItem
	ConsistentRead            *bool
	ScanIndexForward          *bool
	KeyConditionExpression    *string
	FilterExpression          *string
	ProjectionExpression      *string
	ExpressionAttributeValues rawItem
	ExpressionAttributeNames  nameMap
}

type scanInput struct {
	Select                    *string `aws:"enum=SPECIFIC_ATTRIBUTES|COUNT|ALL_ATTRIBUTES|ALL_PROJECTED_ATTRIBUTES"`
	IndexName                 *string `aws:"name"`
	TotalSegments             *int64  `aws:"range=1..1000000"`
	ReturnConsumedCapacity    *string `aws:"enum=INDEXES|TOTAL|NONE"`
	TableName                 *string `aws:"required,name"`
	ConditionalOperator       refused
	ScanFilter                refused
	Segment                   *int64 `aws:"range=0..999999"`
	Limit                     *int64 `aws:"range=1.."`
	AttributesToGet           refused
	ExclusiveStartKey         rawItem
	ConsistentRead            *bool
	FilterExpression          *string
	ProjectionExpression      *string
	ExpressionAttributeValues rawItem
	ExpressionAttributeNames  nameMap
}

type batchGetItemInput struct {
	ReturnConsumedCapacity *string                  `aws:"enum=INDEXES|TOTAL|NONE"`
	RequestItems           keyed[keysAndAttributes] `aws:"required,length=1..,keys=name"`
}

type keysAndAttributes struct {
	Keys                     []rawItem `aws:"required,length=1..100"`
	AttributesToGet          refused
	ConsistentRead           *bool
	ProjectionExpression     *string
	ExpressionAttributeNames nameMap
}

type batchWriteItemInput struct {
	ReturnConsumedCapacity      *string               `aws:"enum=INDEXES|TOTAL|NONE"`
	ReturnItemCollectionMetrics *string               `aws:"enum=SIZE|NONE"`
	RequestItems                keyed[[]writeRequest] `aws:"required,length=1..,keys=name,values=1..25"`
}

type writeRequest struct {
	DeleteRequest *deleteRequest
	PutRequest    *putRequest
}

type deleteRequest struct {
	Key rawItem `aws:"required"`
}

type putRequest struct {
	Item rawItem `aws:"required"`
}

type transactGetItemsInput struct {
	ReturnConsumedCapacity *string           `aws:"enum=INDEXES|TOTAL|NONE"`
	TransactItems          []transactGetItem `aws:"required,length=1..100"`
}

type transactGetItem struct {
	Get *get `aws:"required"`
}

type get struct {
	TableName                *string `aws:"required,name"`
	Key                      rawItem `aws:"required"`
	ProjectionExpression     *string
	ExpressionAttributeNames nameMap
}

type transactWriteItemsInput struct {
	ReturnConsumedCapacity      *string             `aws:"enum=INDEXES|TOTAL|NONE"`
	ReturnItemCollectionMetrics *string             `aws:"enum=SIZE|NONE"`
	ClientRequestToken          *string             `aws:"length=1..36"`
	TransactItems               []transactWriteItem `aws:"required,length=1..100"`
}

type transactWriteItem struct {
	ConditionCheck *conditionCheck
	Put            *put
	Delete         *deletion
	Update         *update
}

type conditionCheck struct {
	TableName                           *string `aws:"required,name"`
	Key                                 rawItem `aws:"required"`
	ConditionExpression                 *string `aws:"required"`
	ExpressionAttributeNames            nameMap
	ExpressionAttributeValues           rawItem
	ReturnValuesOnConditionCheckFailure *string `aws:"enum=ALL_OLD|NONE"`
}

type put struct {
	TableName                           *string `aws:"required,name"`
	Item                                rawItem `aws:"required"`
	ConditionExpression                 *string
	ExpressionAttributeNames            nameMap
	ExpressionAttributeValues           rawItem
	ReturnValuesOnConditionCheckFailure *string `aws:"enum=ALL_OLD|NONE"`
}

// deletion is the shape Delete.
type deletion struct {
	TableName                           *string `aws:"required,name"`
	Key                                 rawItem `aws:"required"`
	ConditionExpression                 *string
	ExpressionAttributeNames            nameMap
	ExpressionAttributeValues           rawItem
	ReturnValuesOnConditionCheckFailure *string `aws:"enum=ALL_OLD|NONE"`
}

type update struct {
	TableName                           *string `aws:"required,name"`
	Key                                 rawItem `aws:"required"`
	UpdateExpression                    *string `aws:"required"`
	ConditionExpression                 *string
	ExpressionAttributeNames            nameMap
	ExpressionAttributeValues           rawItem
	ReturnValuesOnConditionCheckFailure *string `aws:"enum=ALL_OLD|NONE"`
}

type createTableInput struct {
	AttributeDefinitions               []attributeDefinition `aws:"required"`
	TableName                          *string               `aws:"table"`
	BillingMode                        *string               `aws:"enum=PROVISIONED|PAY_PER_REQUEST"`
	ProvisionedThroughput              *provisionedThroughput
	KeySchema                          []keySchemaElement `aws:"required,length=1..2"`
	LocalSecondaryIndexes              refused
	GlobalSecondaryIndexes             []globalSecondaryIndex
	DeletionProtectionEnabled          *bool
	GlobalTableSettingsReplicationMode refused
	GlobalTableSourceArn               refused
	OnDemandThroughput                 refused
	ResourcePolicy                     refused
	SSESpecification                   refused
	StreamSpecification                refused
	TableClass                         refused
	Tags                               refused
	VectorIndexes                      refused
	WarmThroughput                     refused
}

type attributeDefinition struct {
	AttributeName *string `aws:"required,length=1..255"`
	AttributeType *string `aws:"required,enum=B|N|S"`
}

type provisionedThroughput struct {
	WriteCapacityUnits *int64 `aws:"required,range=1.."`
	ReadCapacityUnits  *int64 `aws:"required,range=1.."`
}

type keySchemaElement struct {
	AttributeName *string `aws:"required,length=1..255"`
	KeyType       *string `aws:"required,enum=HASH|RANGE"`
}

type globalSecondaryIndex struct {
	IndexName             *string            `aws:"required,name"`
	KeySchema             []keySchemaElement `aws:"required,length=1..2"`
	Projection            *projection        `aws:"required"`
	ProvisionedThroughput *provisionedThroughput
	OnDemandThroughput    refused
	WarmThroughput        refused
}

type projection struct {
	ProjectionType   *string  `aws:"enum=ALL|INCLUDE|KEYS_ONLY"`
	NonKeyAttributes []string `aws:"length=1..20"`
}

type describeTableInput struct {
	TableName *string `aws:"table"`
}

type deleteTableInput struct {
	TableName *string `aws:"table"`
}

type listTablesInput struct {
	Limit                   *int64  `aws:"range=1..100"`
	ExclusiveStartTableName *string `aws:"name"`
}

type updateTimeToLiveInput struct {
	TableName               *string                  `aws:"required,name"`
	TimeToLiveSpecification *timeToLiveSpecification `aws:"required"`
}

type timeToLiveSpecification struct {
	AttributeName *string `aws:"required,length=1..255"`
	Enabled       *bool   `aws:"required"`
}

type describeTimeToLiveInput struct {
	TableName *string `aws:"table"`
}
