package snapline;

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;

import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InheritAnalysisRules;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.UserDefinedType;
import org.apache.spark.unsafe.types.CalendarInterval;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Writes a logical plan as a pickled table of nodes, so that Python reads it in one call.
 *
 * The table is a list; a node is a map of "class", "is_plan", "fields" (pairs of name and value) and what every plan or
 * expression has. Values are null, booleans, numbers, strings, bytes, lists, and arrays that begin with a tag:
 * {"node", position in the table}, {"type", ...}, {"map", [[key, value]...]}, {"object", class, fields},
 * {"other", class}, {"interval", months, days, microseconds}, {"function", pickled bytes, version of Python, ids of
 * broadcasts}; a data source written in Python stands for the function that is its class. Children come before their parents.
 */
public class PlanWriter {
    private final List table = new ArrayList();
    private final List originals = new ArrayList();
    private final IdentityHashMap positions = new IdentityHashMap();
    private final IdentityHashMap types = new IdentityHashMap();

    /** The nodes of a plan, the last one its root. */
    public byte[] write(LogicalPlan plan) throws Exception {
        node(plan);
        return new net.razorvine.pickle.Pickler().dumps(table);
    }

    /** The node that stands at a position of the table. */
    public Object original(int position) {
        return originals.get(position);
    }

    private Object node(TreeNode tree) throws Exception {
        Object known = positions.get(tree);
        if (known != null) {
            return new Object[] {"node", known};
        }
        Map record = new HashMap();
        record.put("class", tree.getClass().getName());
        record.put("fields", fields(tree));
        List children = new ArrayList();
        scala.collection.Iterator below = children(tree).iterator();
        while (below.hasNext()) {
            children.add(((Object[]) node((TreeNode) below.next()))[1]);
        }
        record.put("children", children);
        if (tree instanceof LogicalPlan) {
            describePlan((LogicalPlan) tree, record);
        } else {
            describeExpression((Expression) tree, record);
        }
        Integer position = Integer.valueOf(table.size());
        table.add(record);
        originals.add(tree);
        positions.put(tree, position);
        return new Object[] {"node", position};
    }

    private scala.collection.Seq children(TreeNode tree) {
        return tree.children();
    }

    private void describePlan(LogicalPlan plan, Map record) throws Exception {
        record.put("is_plan", Boolean.TRUE);
        record.put("is_streaming", Boolean.valueOf(plan.isStreaming()));
        record.put("text", plan.simpleString(25));
        List output = new ArrayList();
        scala.collection.Iterator attributes = plan.output().iterator();
        while (attributes.hasNext()) {
            output.add(attribute((Attribute) attributes.next()));
        }
        record.put("output", output);
        if (plan instanceof EventTimeWatermark) {
            CalendarInterval delay = ((EventTimeWatermark) plan).delay();
            record.put("delay_ms", Long.valueOf(EventTimeWatermark.getDelayMs(delay)));
        }
        if (plan instanceof LocalRelation) {
            record.put("rows", rows((LocalRelation) plan));
        }
    }

    private Object[] attribute(Attribute attribute) throws Exception {
        return new Object[] {
            Long.valueOf(attribute.exprId().id()), attribute.name(), type(attribute.dataType()),
            Boolean.valueOf(attribute.nullable()), attribute.metadata().json()};
    }

    private List rows(LocalRelation relation) throws Exception {
        List rows = new ArrayList();
        scala.collection.Iterator data = relation.data().iterator();
        while (data.hasNext()) {
            rows.add(literal(data.next(), relation.schema()));
        }
        return rows;
    }

    private void describeExpression(Expression expression, Map record) throws Exception {
        record.put("is_plan", Boolean.FALSE);
        record.put("type", null);
        record.put("nullable", Boolean.TRUE);
        try {
            record.put("type", type(expression.dataType()));
            record.put("nullable", Boolean.valueOf(expression.nullable()));
        } catch (Exception untyped) {
            // Window definitions, frames and other helpers have no value of their own: they stay without a type.
        } catch (AssertionError undefined) {
            // Nor has the list of an IN over a subquery whether it may be null.
        }
        record.put("deterministic", Boolean.valueOf(expression.deterministic()));
        record.put("text", expression.sql());
        if (expression instanceof NamedExpression && expression.resolved()) {
            NamedExpression named = (NamedExpression) expression;
            record.put("id", Long.valueOf(named.exprId().id()));
            record.put("name", named.name());
            record.put("metadata", named.metadata().json());
        }
        if (expression instanceof Literal) {
            Literal literal = (Literal) expression;
            record.put("value", literal(literal.value(), literal.dataType()));
        }
        if (expression instanceof RuntimeReplaceable) {
            record.put("replacement", node(((RuntimeReplaceable) expression).replacement()));
            scala.collection.Seq given = expression instanceof InheritAnalysisRules
                ? ((InheritAnalysisRules) expression).parameters() : children(expression);
            record.put("parameters", value(given));
        }
    }

    private List fields(scala.Product product) throws Exception {
        List fields = new ArrayList();
        scala.collection.Iterator names = product.productElementNames();
        for (int index = 0; names.hasNext(); index++) {
            Object name = names.next();
            Object element = product.productElement(index);
            boolean isRows = product instanceof LocalRelation && "data".equals(name);
            boolean isValue = product instanceof Literal && "value".equals(name);
            if (!isRows && !isValue) {
                fields.add(new Object[] {name, value(element)});
            }
        }
        return fields;
    }

    private Object value(Object given) throws Exception {
        if (given == null || given instanceof Boolean || given instanceof String || given instanceof Double
            || given instanceof byte[] || given instanceof BigDecimal) {
            return given;
        }
        if (given instanceof Float) {
            return Double.valueOf(((Float) given).doubleValue());
        }
        if (given instanceof Number) {
            return Long.valueOf(((Number) given).longValue());
        }
        if (given instanceof TreeNode) {
            return node((TreeNode) given);
        }
        if (given instanceof DataType) {
            return new Object[] {"type", type((DataType) given)};
        }
        if (given instanceof ExprId) {
            return Long.valueOf(((ExprId) given).id());
        }
        if (given instanceof Metadata) {
            return ((Metadata) given).json();
        }
        if (given instanceof scala.Option) {
            return ((scala.Option) given).isEmpty() ? null : value(((scala.Option) given).get());
        }
        if (given instanceof CalendarInterval) {
            return interval((CalendarInterval) given);
        }
        if (given instanceof PythonFunction) {
            return function((PythonFunction) given);
        }
        if (given instanceof scala.collection.Map) {
            return pairs(((scala.collection.Map) given).iterator());
        }
        if (given instanceof scala.collection.Seq || given instanceof scala.collection.Set) {
            return list(((scala.collection.Iterable) given).iterator());
        }
        if (given instanceof org.apache.spark.sql.util.CaseInsensitiveStringMap) {
            return options((Map) given);
        }
        if (given instanceof UTF8String || given instanceof Character || given instanceof scala.Enumeration.Value || given instanceof Enum) {
            return given.toString();
        }
        if (given instanceof PythonDataSourceV2) {
            return function(((PythonDataSourceV2) given).source().dataSourceCls());
        }
        String name = given.getClass().getName();
        if (given instanceof scala.Product && isPlain(name)) {
            scala.Product product = (scala.Product) given;
            return product.productArity() == 0
                ? (Object) product.productPrefix() : new Object[] {"object", name, fields(product)};
        }
        return new Object[] {"other", name};
    }

    private boolean isPlain(String name) {
        return name.startsWith("org.apache.spark.sql.catalyst.expressions.")
            || name.startsWith("org.apache.spark.sql.catalyst.plans.")
            || name.equals("org.apache.spark.sql.catalyst.AliasIdentifier")
            || name.startsWith("org.apache.spark.sql.catalyst.streaming.")
            || name.startsWith("org.apache.spark.sql.catalyst.util.")
            || name.startsWith("org.apache.spark.api.python.")
            || name.equals("org.apache.spark.sql.execution.datasources.DataSource")
            || name.startsWith("scala.Tuple");
    }

    private List list(scala.collection.Iterator elements) throws Exception {
        List values = new ArrayList();
        while (elements.hasNext()) {
            values.add(value(elements.next()));
        }
        return values;
    }

    private Object pairs(scala.collection.Iterator entries) throws Exception {
        List pairs = new ArrayList();
        while (entries.hasNext()) {
            scala.Tuple2 entry = (scala.Tuple2) entries.next();
            pairs.add(new Object[] {value(entry._1()), value(entry._2())});
        }
        return new Object[] {"map", pairs};
    }

    private Object options(Map options) {
        List pairs = new ArrayList();
        for (java.util.Iterator entries = options.entrySet().iterator(); entries.hasNext();) {
            Map.Entry entry = (Map.Entry) entries.next();
            pairs.add(new Object[] {entry.getKey(), entry.getValue()});
        }
        return new Object[] {"map", pairs};
    }

    private Object interval(CalendarInterval interval) {
        return new Object[] {
            "interval", Long.valueOf(interval.months), Long.valueOf(interval.days), Long.valueOf(interval.microseconds)};
    }

    private Object function(PythonFunction function) throws Exception {
        scala.collection.Seq command = function.command();
        byte[] bytes = new byte[command.size()];
        scala.collection.Iterator elements = command.iterator();
        for (int index = 0; elements.hasNext(); index++) {
            bytes[index] = ((Number) elements.next()).byteValue();
        }
        List broadcasts = new ArrayList();
        for (java.util.Iterator all = function.broadcastVars().iterator(); all.hasNext();) {
            broadcasts.add(Long.valueOf(((org.apache.spark.broadcast.Broadcast) all.next()).id()));
        }
        return new Object[] {"function", bytes, function.pythonVer(), broadcasts};
    }

    private Object type(DataType type) throws Exception {
        Object known = types.get(type);
        if (known == null) {
            known = describedType(type);
            types.put(type, known);
        }
        return known;
    }

    private Object describedType(DataType type) throws Exception {
        String name = type.getClass().getSimpleName().replace("$", "");
        if (type instanceof UserDefinedType) {
            return new Object[] {"UserDefinedType", type.catalogString()};
        }
        if (type instanceof StructType) {
            StructField[] given = ((StructType) type).fields();
            List fields = new ArrayList();
            for (int index = 0; index < given.length; index++) {
                fields.add(new Object[] {
                    given[index].name(), type(given[index].dataType()), Boolean.valueOf(given[index].nullable())});
            }
            return new Object[] {name, fields};
        }
        if (type instanceof ArrayType) {
            ArrayType array = (ArrayType) type;
            return new Object[] {name, type(array.elementType()), Boolean.valueOf(array.containsNull())};
        }
        if (type instanceof MapType) {
            MapType map = (MapType) type;
            return new Object[] {
                name, type(map.keyType()), type(map.valueType()), Boolean.valueOf(map.valueContainsNull())};
        }
        if (type instanceof DecimalType) {
            DecimalType decimal = (DecimalType) type;
            return new Object[] {name, Long.valueOf(decimal.precision()), Long.valueOf(decimal.scale())};
        }
        if (type instanceof StringType && ((StringType) type).collationId() != 0) {
            return new Object[] {"Collation", type.catalogString()};
        }
        return new Object[] {name, type.catalogString()};
    }

    private Object literal(Object given, DataType type) throws Exception {
        if (given == null) {
            return null;
        }
        if (given instanceof UTF8String) {
            return given.toString();
        }
        if (given instanceof org.apache.spark.sql.types.Decimal) {
            return ((org.apache.spark.sql.types.Decimal) given).toJavaBigDecimal();
        }
        if (given instanceof CalendarInterval) {
            return interval((CalendarInterval) given);
        }
        List values = new ArrayList();
        if (given instanceof ArrayData) {
            ArrayData array = (ArrayData) given;
            DataType element = ((ArrayType) type).elementType();
            for (int index = 0; index < array.numElements(); index++) {
                values.add(array.isNullAt(index) ? null : literal(array.get(index, element), element));
            }
            return values;
        }
        if (given instanceof MapData) {
            MapType map = (MapType) type;
            List keys = (List) literal(((MapData) given).keyArray(), new ArrayType(map.keyType(), false));
            List items = (List) literal(((MapData) given).valueArray(), new ArrayType(map.valueType(), true));
            for (int index = 0; index < keys.size(); index++) {
                values.add(new Object[] {keys.get(index), items.get(index)});
            }
            return values;
        }
        if (given instanceof InternalRow) {
            StructField[] fields = ((StructType) type).fields();
            for (int index = 0; index < fields.length; index++) {
                DataType field = fields[index].dataType();
                boolean isNull = ((InternalRow) given).isNullAt(index);
                values.add(isNull ? null : literal(((InternalRow) given).get(index, field), field));
            }
            return values;
        }
        return value(given);
    }
}
